//! Exposed names: how a server's tool or prompt is called on each surface (design section 7).
