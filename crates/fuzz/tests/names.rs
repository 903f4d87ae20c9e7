//! A name leads to the server that it names, or nowhere, for any lists and any states of the servers.

use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_name_leads_to_the_server_it_names_or_nowhere(bytes in prop::collection::vec(any::<u8>(), 0..250)) {
        fuzz::names::check(&bytes);
    }
}
