//! A reader of GGUF files: the header, the metadata, and the location of each tensor's bytes.
//!
//! Every number in the file is checked before it is used: a truncated or damaged file gives an
//! error that names what is wrong, never a panic and never a slice beyond the mapping. The reader
//! deliberately decodes no tensor; token lists and other arrays are skipped.

use protocol::engine::EngineError;
use std::collections::HashMap;

/// The element types that this engine reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// 32-bit floats.
    F32,
    /// Blocks of an f16 scale and 32 int8 values.
    Q8_0,
    /// Another type, by its number.
    Other(u32),
}

impl Type {
    fn from_number(number: u32) -> Self {
        match number {
            0 => Type::F32,
            8 => Type::Q8_0,
            other => Type::Other(other),
        }
    }
}

/// A tensor's shape, and its bytes in the file.
#[derive(Clone, Debug)]
pub struct Tensor<'a> {
    /// Element type.
    pub kind: Type,
    /// Number of rows (1 for a vector).
    pub rows: usize,
    /// Number of columns, which are contiguous in memory.
    pub cols: usize,
    /// Exactly the tensor's bytes; empty for a type that this engine does not read.
    pub bytes: &'a [u8],
}

/// A metadata value; arrays are skipped.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// An unsigned or non-negative integer, or a bool.
    Integer(u64),
    /// A float of any width.
    Float(f64),
    /// A short string.
    Text(String),
    /// A negative integer, an array or a long text, none of which this engine reads.
    Other,
}

impl Value {
    /// Return the integer, if it is one.
    pub fn as_u64(&self) -> Option<u64> {
        match self {
            Value::Integer(value) => Some(*value),
            _ => None,
        }
    }

    /// Return the float, if it is one.
    pub fn as_f32(&self) -> Option<f32> {
        match self {
            Value::Float(value) => Some(*value as f32),
            _ => None,
        }
    }

    /// Return the string, if it is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::Text(value) => Some(value),
            _ => None,
        }
    }
}

/// An opened GGUF file.
pub struct Gguf<'a> {
    name: String,
    values: HashMap<String, Value>,
    tensors: HashMap<String, Tensor<'a>>,
}

/// The reason why the bytes are not a GGUF file, without the file's name.
type Fault = String;

impl<'a> Gguf<'a> {
    /// Read the header of `bytes`; `name` is for messages.
    ///
    /// # Errors
    /// Fails if the bytes are not a complete and consistent GGUF file.
    pub fn open(bytes: &'a [u8], name: &str) -> Result<Self, EngineError> {
        let (values, tensors) = read(bytes).map_err(|fault| {
            EngineError::internal(format!(
                "{name}: {fault}; the file is damaged or incomplete, fetch it again"
            ))
        })?;
        Ok(Self {
            name: name.to_owned(),
            values,
            tensors,
        })
    }

    /// Return the file's name, for messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Return a metadata value, if the file has it.
    pub fn value(&self, key: &str) -> Option<&Value> {
        self.values.get(key)
    }

    /// Return a tensor, if the file has it.
    pub fn find(&self, tensor: &str) -> Option<&Tensor<'a>> {
        self.tensors.get(tensor)
    }

    /// Return a tensor that the file must have.
    ///
    /// # Errors
    /// Fails if the file has no tensor of that name.
    pub fn tensor(&self, tensor: &str) -> Result<&Tensor<'a>, EngineError> {
        self.find(tensor).ok_or_else(|| {
            EngineError::internal(format!("{}: it has no tensor `{tensor}`", self.name))
        })
    }

    /// Return the number of rows of a tensor that the file must have.
    ///
    /// # Errors
    /// Fails if the file has no tensor of that name.
    pub fn rows(&self, tensor: &str) -> Result<usize, EngineError> {
        Ok(self.tensor(tensor)?.rows)
    }
}

type Contents<'a> = (HashMap<String, Value>, HashMap<String, Tensor<'a>>);

fn read(bytes: &[u8]) -> Result<Contents<'_>, Fault> {
    let mut reader = Reader { bytes, at: 0 };
    if reader.take(4)? != b"GGUF" {
        return Err("it does not begin with `GGUF`".into());
    }
    let version = reader.u32()?;
    if !(2..=3).contains(&version) {
        return Err(format!("GGUF version {version} is not 2 or 3"));
    }
    let tensor_count = reader.u64()?;
    let value_count = reader.u64()?;

    let mut values = HashMap::new();
    for _ in 0..value_count {
        let key = reader.name()?;
        let kind = reader.u32()?;
        values.insert(key, reader.value(kind, 0)?);
    }
    let alignment = match values.get("general.alignment") {
        None => 32,
        Some(value) => value.as_u64().unwrap_or(0) as usize,
    };
    if !alignment.is_power_of_two() || alignment > 1 << 20 {
        return Err(format!("alignment {alignment} is no power of two"));
    }

    let mut infos = Vec::new();
    for _ in 0..tensor_count {
        let name = reader.name()?;
        let dimensions = reader.u32()?;
        if !(1..=4).contains(&dimensions) {
            return Err(format!("tensor `{name}` has {dimensions} dimensions"));
        }
        let mut shape = [1u64; 4];
        for length in &mut shape[..dimensions as usize] {
            *length = reader.u64()?;
        }
        let kind = Type::from_number(reader.u32()?);
        infos.push((name, shape, kind, reader.u64()?));
    }

    let data = reader.at.next_multiple_of(alignment).min(bytes.len());
    let data = &bytes[data..];
    let mut tensors = HashMap::new();
    for (name, shape, kind, offset) in infos {
        let tensor = locate(data, shape, kind, offset)
            .ok_or_else(|| format!("tensor `{name}` does not lie inside the file"))?;
        if tensors.insert(name.clone(), tensor).is_some() {
            return Err(format!("tensor `{name}` occurs twice"));
        }
    }
    Ok((values, tensors))
}

/// Return the tensor, or `None` if its bytes do not lie inside `data`.
fn locate(data: &[u8], shape: [u64; 4], kind: Type, offset: u64) -> Option<Tensor<'_>> {
    let cols = usize::try_from(shape[0]).ok()?;
    let rows = shape[1..]
        .iter()
        .try_fold(1u64, |rows, n| rows.checked_mul(*n))?;
    let rows = usize::try_from(rows).ok()?;
    let row_bytes = match kind {
        Type::F32 => cols.checked_mul(4)?,
        Type::Q8_0 if cols.is_multiple_of(32) => (cols / 32).checked_mul(34)?,
        Type::Q8_0 => return None,
        // Its size is unknown; the caller refuses the type if it needs the tensor.
        Type::Other(_) => 0,
    };
    let start = usize::try_from(offset).ok()?;
    let end = start.checked_add(row_bytes.checked_mul(rows)?)?;
    Some(Tensor {
        kind,
        rows,
        cols,
        bytes: data.get(start..end)?,
    })
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Fault> {
        let end = self
            .at
            .checked_add(count)
            .filter(|end| *end <= self.bytes.len());
        let end = end.ok_or_else(|| format!("it ends in its header, at byte {}", self.at))?;
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    fn u32(&mut self) -> Result<u32, Fault> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64, Fault> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn length(&mut self) -> Result<usize, Fault> {
        usize::try_from(self.u64()?).map_err(|_| "a length beyond memory".to_owned())
    }

    /// Read a string; `None` if it is not fit to be a name, that is short and printable in a
    /// message.
    fn short_text(&mut self) -> Result<Option<String>, Fault> {
        let length = self.length()?;
        let text = std::str::from_utf8(self.take(length)?).ok();
        let fit = |text: &&str| text.len() <= 256 && !text.chars().any(char::is_control);
        Ok(text.filter(fit).map(str::to_owned))
    }

    fn name(&mut self) -> Result<String, Fault> {
        let at = self.at;
        self.short_text()?
            .ok_or_else(|| format!("no name stands at byte {at} of its header"))
    }

    fn value(&mut self, kind: u32, depth: u32) -> Result<Value, Fault> {
        let integer = |value: i64| u64::try_from(value).map_or(Value::Other, Value::Integer);
        Ok(match kind {
            0 | 7 => Value::Integer(self.array::<1>()?[0].into()),
            1 => integer(i8::from_le_bytes(self.array()?).into()),
            2 => Value::Integer(u16::from_le_bytes(self.array()?).into()),
            3 => integer(i16::from_le_bytes(self.array()?).into()),
            4 => Value::Integer(self.u32()?.into()),
            5 => integer(i32::from_le_bytes(self.array()?).into()),
            6 => Value::Float(f32::from_le_bytes(self.array()?).into()),
            8 => self.short_text()?.map_or(Value::Other, Value::Text),
            9 => {
                self.skip_array(depth)?;
                Value::Other
            }
            10 => Value::Integer(self.u64()?),
            11 => integer(i64::from_le_bytes(self.array()?)),
            12 => Value::Float(f64::from_le_bytes(self.array()?)),
            other => return Err(format!("metadata of unknown type {other}")),
        })
    }

    fn skip_array(&mut self, depth: u32) -> Result<(), Fault> {
        if depth > 3 {
            return Err("arrays nested too deep".into());
        }
        let kind = self.u32()?;
        let count = self.length()?;
        let size = match kind {
            0 | 1 | 7 => 1,
            2 | 3 => 2,
            4..=6 => 4,
            10..=12 => 8,
            // Strings and arrays must be walked; each takes at least 8 bytes, so a wrong count
            // soon runs into the end of the file.
            8 => {
                for _ in 0..count {
                    let length = self.length()?;
                    self.take(length)?;
                }
                return Ok(());
            }
            9 => {
                for _ in 0..count {
                    self.skip_array(depth + 1)?;
                }
                return Ok(());
            }
            other => return Err(format!("metadata of unknown type {other}")),
        };
        self.take(count.checked_mul(size).ok_or("an array beyond memory")?)?;
        Ok(())
    }
}
