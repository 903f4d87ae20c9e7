//! Whatever servers list, and in whatever state they are: a name leads to the server it names, or nowhere.

use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_name_leads_to_the_server_it_names_or_nowhere(bytes in prop::collection::vec(any::<u8>(), 0..250)) {
        fuzz::names::check(&bytes);
    }
}
