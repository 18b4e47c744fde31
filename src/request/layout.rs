//! Where a body can be cut and added to: all that splicing needs to know, noted while reading.

use super::scan::Member;
use super::span::Span;
use smallvec::SmallVec;

/// The places of one body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) form: Form,
    /// The value of `model`, for JSON with its quotes.
    pub(super) model: Option<Span>,
    /// What to take out so that no field is left that chooses an adapter: whole members with their commas, or whole parts.
    /// Rising and not overlapping. Almost always none or one.
    pub(super) adapter_fields: SmallVec<[Span; 2]>,
}

/// How the body is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Json {
        /// Behind the opening brace.
        open: usize,
        /// Where the last member that chooses no adapter ends; `None`: there is none.
        kept: Option<usize>,
    },
    Multipart {
        /// The first `--boundary`.
        delimiter: Span,
    },
}

impl Layout {
    pub(super) fn new(form: Form) -> Self {
        Self { form, model: None, adapter_fields: SmallVec::new() }
    }

    /// Takes note of the next JSON member.
    pub(super) fn member(&mut self, member: &Member, chooses_adapter: bool) {
        let Form::Json { kept, .. } = &mut self.form else { return };
        let whole = Span { start: member.key.span.start, end: member.value.span.end };
        // A cut reaches to the next member, so that it takes the comma along.
        if let Some(cut) = self.adapter_fields.last_mut().filter(|cut| kept.is_none_or(|kept| kept < cut.end)) {
            cut.end = whole.start;
        }
        if chooses_adapter {
            self.cut(whole);
        } else {
            *kept = Some(whole.end);
        }
    }

    /// Takes note of the end of the JSON object: a cut at its end takes the comma before it.
    pub(super) fn end(&mut self) {
        let Form::Json { kept: Some(kept), .. } = self.form else { return };
        if let Some(cut) = self.adapter_fields.last_mut().filter(|cut| cut.start >= kept) {
            cut.start = kept;
        }
    }

    /// Adds a cut; one that touches the last becomes part of it.
    pub(super) fn cut(&mut self, span: Span) {
        match self.adapter_fields.last_mut() {
            Some(last) if last.end == span.start => last.end = span.end,
            _ => self.adapter_fields.push(span),
        }
    }
}
