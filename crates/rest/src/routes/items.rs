//! Routes for resource templates, resources and prompts.

use mainstay_api as api;
use mainstay_core::failure::FailureKind;

use super::SERVER;
use crate::{
    calls,
    code::{
        CALL_ERRORS,
        Code::{Failed, MissingParameter},
        SERVER_NOT_FOUND,
    },
    lists,
    operation::{Operation, get, post},
    schema::text,
};

pub fn operations() -> Vec<Operation> {
    vec![
        get(api::TEMPLATES, lists::templates)
            .summary("The resource templates of all servers, or of one")
            .query("server", SERVER, &text())
            .answers::<api::Templates>()
            .fails(&[SERVER_NOT_FOUND]),
        post(api::READ_WHOLE, calls::read_whole)
            .summary("Read a resource, from whichever server has it")
            .accepts::<api::Read>()
            .answers::<api::WholeRead>()
            .follows()
            .fails(&CALL_ERRORS)
            .fails(&[MissingParameter, Failed(FailureKind::ResourceNotFound)]),
        get(api::PROMPTS, lists::prompts)
            .summary("The prompts of all servers, or of one")
            .query("server", SERVER, &text())
            .answers::<api::Prompts>()
            .fails(&[SERVER_NOT_FOUND]),
        post(api::GET_PROMPT, calls::get_prompt)
            .summary("Get a prompt")
            .accepts::<api::GetPrompt>()
            .answers::<api::Answer>()
            .follows()
            .fails(&CALL_ERRORS)
            .fails(&[MissingParameter, Failed(FailureKind::PromptNotFound)]),
    ]
}
