//! The prompts of `catalog.json`.

use rmcp::{
    ErrorData, RoleServer,
    model::{
        ContentBlock, GetPromptRequestParams, GetPromptResponse, GetPromptResult, PromptMessage,
        ResourceContents, Role,
    },
    service::RequestContext,
};
use serde_json::{Value, json};

use crate::{
    catalog::PNG,
    input::{self, Answers},
};

pub fn get(
    params: &GetPromptRequestParams,
    context: &RequestContext<RoleServer>,
) -> Result<GetPromptResponse, ErrorData> {
    let argument = |name: &str| {
        let arguments = params.arguments.as_ref();
        arguments
            .and_then(|arguments| arguments.get(name)?.as_str())
            .ok_or_else(|| ErrorData::invalid_params(format!("missing argument {name}"), None))
    };
    match params.name.as_str() {
        "test_simple_prompt" => Ok(messages([ContentBlock::text(
            "This is a simple prompt for testing.",
        )])),
        "test_prompt_with_arguments" => Ok(messages([ContentBlock::text(format!(
            "Prompt with arguments: arg1='{}', arg2='{}'",
            argument("arg1")?,
            argument("arg2")?,
        ))])),
        "test_prompt_with_embedded_resource" => Ok(messages([
            ContentBlock::resource(ResourceContents::text(
                "Embedded resource content for testing.",
                argument("resourceUri")?,
            )),
            ContentBlock::text("Please process the embedded resource above."),
        ])),
        "test_prompt_with_image" => Ok(messages([
            ContentBlock::image(PNG, "image/png"),
            ContentBlock::text("Please analyze the image above."),
        ])),
        "test_input_required_result_prompt" => {
            let answers = Answers::new(params.input_responses.as_ref());
            match answers
                .elicited("user_context", "context")
                .and_then(Value::as_str)
            {
                Some(text) => Ok(messages([ContentBlock::text(format!("Use this: {text}"))])),
                None => Ok(input::required(
                    context,
                    [(
                        "user_context",
                        input::elicitation(
                            "What context should the prompt use?",
                            &json!({ "context": { "type": "string" } }),
                            &["context"],
                        ),
                    )],
                    None,
                )?
                .into()),
            }
        }
        unknown => Err(ErrorData::invalid_params(
            format!("unknown prompt {unknown}"),
            None,
        )),
    }
}

fn messages<const N: usize>(contents: [ContentBlock; N]) -> GetPromptResponse {
    let messages = contents.map(|content| PromptMessage::new(Role::User, content));
    GetPromptResult::new(messages.into()).into()
}
