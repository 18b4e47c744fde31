//! What is seen of recorded streams, and that no cut of a stream changes it.

use super::*;
use proptest::prelude::*;

const CHAT: &str = concat!(
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":null}]}\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\" \\\"usage\\\": {\"},\"finish_reason\":null,\"token_ids\":null}]}\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"},\"finish_reason\":\"abort\",\"stop_reason\":null}]}\n\n",
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"total_tokens\":9,\"completion_tokens\":2,\"prompt_tokens_details\":{\"cached_tokens\":5}}}\n\n",
    "data: [DONE]\n\n",
);
const MESSAGES: &str = concat!(
    "event: message_start\ndata: {\"message\":{\"stop_reason\":null,\"usage\":{\"input_tokens\":7,\"output_tokens\":0}}}\n\n",
    "event: content_block_delta\ndata: {\"delta\":{\"type\":\"text_delta\",\"text\":\"a\"},\"index\":0}\n\n",
    "event: message_delta\ndata: {\"delta\":{\"stop_reason\":\"max_tokens\"},\"usage\":{\"output_tokens\":3}}\n\n",
    "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
);

fn seen(text: &str) -> Seen {
    let mut stream = StreamText::sse();
    stream.feed(text.as_bytes());
    stream.finish()
}

fn usage(prompt: u64, completion: u64, cached: Option<u64>) -> Usage {
    Usage { prompt: Some(prompt), completion: Some(completion), cached }
}

#[test]
fn sees_an_aborted_chat_to_its_clean_looking_end() {
    let finish = Some(Finish::Abort);
    assert_eq!(seen(CHAT), Seen { first_token: true, usage: usage(7, 2, Some(5)), finish, ended: true, error: false });
}

#[test]
fn sees_a_messages_stream() {
    let finish = Some(Finish::Length);
    assert_eq!(seen(MESSAGES), Seen { first_token: true, usage: usage(7, 3, None), finish, ended: true, error: false });
}

#[test]
fn takes_an_empty_delta_for_no_token_and_an_error_event_for_an_error() {
    assert!(!seen(CHAT.split_inclusive("\n\n").next().unwrap()).first_token);
    assert!(seen("data: {\"error\":{\"message\":\"EngineCore\"}}\n\n").error);
}

#[test]
fn finds_the_usage_at_the_end_of_a_long_responses_event() {
    let long = "y".repeat(3 * TAIL);
    let text = format!(
        "event: response.completed\r\ndata: {{\"text\":\"{long}\",\"usage\":{{\"input_tokens\":7,\"input_tokens_details\":{{\"cached_tokens\":0}},\"output_tokens\":4}}}}\r\n\r\n"
    );
    assert_eq!((seen(&text).usage, seen(&text).ended), (usage(7, 4, Some(0)), true));
}

#[test]
fn reads_the_end_of_a_long_json_answer_with_llamacpp_timings() {
    let mut answer = StreamText::json();
    for _ in 0..100 {
        answer.feed(&[b'z'; 1000]);
    }
    answer.feed(b"\",\"finish_reason\":\"length\",\"usage\":{\"completion_tokens\":2,\"prompt_tok");
    answer.feed(b"ens\":26},\"timings\":{\"cache_n\":21,\"prompt_ms\":1.5}}");
    assert!(answer.tail.len() <= 2 * TAIL);
    assert_eq!((answer.seen().first_token, answer.finish().usage), (false, usage(26, 2, Some(21))));
}

proptest! {
    #[test]
    fn any_cut_of_a_stream_gives_the_same_observations(
        cuts in prop::collection::vec(1usize..600, 1..200), filler in 0usize..20_000, truncate in 0usize..30_000,
    ) {
        let text = format!("{CHAT}data: {{\"pad\":\"{}\"}}\n\n{MESSAGES}", "p".repeat(filler));
        let text = &text[..truncate.min(text.len())];
        let mut stream = StreamText::sse();
        let (mut rest, mut sizes) = (text.as_bytes(), cuts.iter().cycle());
        while !rest.is_empty() {
            let (chunk, after) = rest.split_at((*sizes.next().unwrap()).min(rest.len()));
            stream.feed(chunk);
            rest = after;
        }
        prop_assert_eq!(stream.finish(), seen(text));
    }
}
