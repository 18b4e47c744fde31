//! One pass over a body: its wanted fields and its layout, from JSON or from a form.

use super::bad_request::BadRequest;
use super::field::{Field, Fields, Found};
use super::layout::{Form, Layout};
use super::multipart::{Part, Parts};
use super::scan::{Member, Scanner};

/// What one pass over a body found.
pub(super) struct Reading {
    pub(super) fields: Fields,
    pub(super) layout: Layout,
}

impl Reading {
    /// Reads a JSON body.
    pub(super) fn json(body: &[u8]) -> Result<Self, BadRequest> {
        let mut scanner = Scanner::open(body)?;
        let mut reading = Self::new(Form::Json { open: scanner.position(), kept: None });
        while let Some(member) = scanner.member()? {
            reading.member(body, &member)?;
        }
        reading.layout.end();
        Ok(reading)
    }

    /// Reads a `multipart/form-data` body, given its boundary.
    pub(super) fn multipart(body: &[u8], boundary: &[u8]) -> Result<Self, BadRequest> {
        let mut parts = Parts::open(body, boundary)?;
        let mut reading = Self::new(Form::Multipart { delimiter: parts.delimiter() });
        while let Some(part) = parts.part()? {
            reading.part(&part)?;
        }
        Ok(reading)
    }

    fn new(form: Form) -> Self {
        Self { fields: Fields::default(), layout: Layout::new(form) }
    }

    fn member(&mut self, body: &[u8], member: &Member) -> Result<(), BadRequest> {
        let field = Field::of_key(body, member.key);
        self.layout.member(member, field.is_some_and(Field::chooses_adapter));
        field.map_or(Ok(()), |field| self.found(field, Found::Json(member.value)))
    }

    fn part(&mut self, part: &Part<'_>) -> Result<(), BadRequest> {
        let Some(field) = Field::named(part.name) else { return Ok(()) };
        if field.chooses_adapter() {
            self.layout.cut(part.whole);
        }
        self.found(field, if part.is_file { Found::File(part.value) } else { Found::Form(part.value) })
    }

    fn found(&mut self, field: Field, found: Found) -> Result<(), BadRequest> {
        if field == Field::Model {
            if self.fields.stated(field).is_some() {
                return Err(BadRequest::DuplicateField { param: "model", offset: Some(found.span().start) });
            }
            self.layout.model = Some(found.span());
        }
        self.fields.set(field, found);
        Ok(())
    }
}
