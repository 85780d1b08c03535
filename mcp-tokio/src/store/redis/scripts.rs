//! What is carried out at the store in one step: scripts in Lua. Each of them names its keys, and its arguments in order.
//!
//! A record is a hash: `v` is its version, `d` its bytes.
//!
//! A stream is a hash, too, so that its events and what is known of them cannot expire or be evicted apart from each other:
//! `n` is the number of the next event, `f` that of the first one that is stored, `b` how many bytes are stored, `l` the
//! label, `z` is there if the stream has ended, the decimal number of an event is the field of its bytes, and `t:` with the
//! id of an instance is the last action of that instance without numbers.
//!
//! The messages to an instance are a Redis stream whose field `m` is the message. Its first entry has none.

use redis::Script;

/// How long an instance is found after it was last registered.
pub(super) const FOUND_FOR_MS: u64 = 10_000;
/// The messages that wait for an instance; older ones are dropped.
pub(super) const WAITING: usize = 10_000;

pub(super) struct Scripts {
    /// Registers an instance.
    ///
    /// Keys: those of the instance and of the set. Arguments: its id, [`FOUND_FOR_MS`]. Returns the id of the last message.
    pub(super) register: Script,
    /// Keys: those of the record and of the stream that expires with it. Arguments: the milliseconds that they must have left,
    /// and those that they get if they have fewer. Returns the version and the bytes, or nothing. A record that is used often
    /// is written now and then only, which matters where each write is flushed to the disk.
    pub(super) load: Script,
    /// Keys: that of the record, those of `register`, and that of the stream that expires with the record. Arguments: those
    /// of `register`, the expected version, the bytes,
    /// the milliseconds until it expires. Returns 1, or 0 if another version is stored.
    pub(super) save: Script,
    /// Keys: that of the stream, and those of `register`. Arguments: those of `register`, the number of the first event or
    /// 0, 1 or 0 for whether the stream ends, the bytes to keep, the milliseconds until it expires, the label, the action,
    /// the events. Returns 1, or 0 if there is a gap or the stream has ended.
    pub(super) append: Script,
    /// Key: that of the stream. Arguments: the number of the event before, or -1 for the last one; the limit of bytes.
    /// Returns nothing, or: the label, the number of the first event, whether the stream has ended, the events.
    pub(super) read: Script,
    /// Keys: that of the last message of the sender, that of the set. Arguments: the action, the prefix of the keys of
    /// instances, the sender, the recipient or nothing for all, the message, [`WAITING`], [`FOUND_FOR_MS`].
    pub(super) send: Script,
}

const DEFINE_REGISTER: &str = r"
local function register(messages, instances, id, found_for)
    if redis.call('EXISTS', messages) == 0 then
        redis.call('XADD', messages, '*', 'j', '')
        redis.call('PEXPIRE', messages, found_for)
        redis.call('SADD', instances, id)
        redis.call('PEXPIRE', instances, found_for)
    end
end
";

const REGISTER: &str = r"
register(KEYS[1], KEYS[2], ARGV[1], ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
redis.call('SADD', KEYS[2], ARGV[1])
redis.call('PEXPIRE', KEYS[2], ARGV[2])
local about = redis.call('XINFO', 'STREAM', KEYS[1])
for at = 1, #about, 2 do
    if about[at] == 'last-generated-id' then return about[at + 1] end
end
return '0-0'
";

const LOAD: &str = r"
local record = redis.call('HMGET', KEYS[1], 'v', 'd')
if record[1] and redis.call('PTTL', KEYS[1]) < tonumber(ARGV[1]) then
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
    redis.call('PEXPIRE', KEYS[2], ARGV[2])
end
return record
";

const SAVE: &str = r"
register(KEYS[2], KEYS[3], ARGV[1], ARGV[2])
local expected = tonumber(ARGV[3])
local stored = redis.call('HMGET', KEYS[1], 'v', 'd')
local version = tonumber(stored[1] or 0)
local is_repeated = version == expected + 1 and stored[2] == ARGV[4]
if version ~= expected and not is_repeated then return 0 end
redis.call('HSET', KEYS[1], 'v', string.format('%.0f', expected + 1), 'd', ARGV[4])
redis.call('PEXPIRE', KEYS[1], ARGV[5])
redis.call('PEXPIRE', KEYS[4], ARGV[5])
return 1
";

const APPEND: &str = r"
register(KEYS[2], KEYS[3], ARGV[1], ARGV[2])
local field = function(number) return string.format('%.0f', number) end
local action = 't:' .. ARGV[1]
local stored = redis.call('HMGET', KEYS[1], 'n', 'f', 'b', 'z', action)
local next, oldest, bytes = tonumber(stored[1] or 1), tonumber(stored[2] or 1), tonumber(stored[3] or 0)
local first, given = tonumber(ARGV[3]), #ARGV - 8
local is_new = not stored[1]
if first == 0 then
    if stored[5] == ARGV[8] then
        redis.call('PEXPIRE', KEYS[1], ARGV[6])
        return 1
    end
    first = next
end
if first > next then return 0 end
local skipped = next - first
if stored[4] and given > skipped then return 0 end
for at = skipped + 1, given do
    local event = ARGV[8 + at]
    redis.call('HSET', KEYS[1], field(next), event)
    next, bytes = next + 1, bytes + #event
end
local keep = tonumber(ARGV[5])
while bytes > keep and oldest < next do
    bytes = bytes - redis.call('HSTRLEN', KEYS[1], field(oldest))
    redis.call('HDEL', KEYS[1], field(oldest))
    oldest = oldest + 1
end
redis.call('HSET', KEYS[1], 'n', field(next), 'f', field(oldest), 'b', field(bytes))
if is_new then redis.call('HSET', KEYS[1], 'l', ARGV[7]) end
if ARGV[4] == '1' then redis.call('HSET', KEYS[1], 'z', '') end
if ARGV[3] == '0' then redis.call('HSET', KEYS[1], action, ARGV[8]) end
redis.call('PEXPIRE', KEYS[1], ARGV[6])
return 1
";

const READ: &str = r"
local field = function(number) return string.format('%.0f', number) end
local stored = redis.call('HMGET', KEYS[1], 'n', 'f', 'z', 'l')
if not stored[1] then return false end
local next, oldest = tonumber(stored[1]), tonumber(stored[2])
local first = tonumber(ARGV[1]) + 1
if first == 0 then first = next end
if first < oldest or first > next then return false end
local limit, bytes, events, at = tonumber(ARGV[2]), 0, {}, first
while at < next do
    bytes = bytes + redis.call('HSTRLEN', KEYS[1], field(at))
    if bytes > limit and #events > 0 then break end
    events[#events + 1] = redis.call('HGET', KEYS[1], field(at))
    at = at + 1
end
local is_last = (stored[3] and at == next) and 1 or 0
return { stored[4], first, is_last, events }
";

const SEND: &str = r"
if redis.call('GET', KEYS[1]) == ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[7])
local recipients = { ARGV[4] }
if ARGV[4] == '' then recipients = redis.call('SMEMBERS', KEYS[2]) end
for _, recipient in ipairs(recipients) do
    local messages = ARGV[2] .. recipient
    if redis.call('EXISTS', messages) == 0 then
        redis.call('SREM', KEYS[2], recipient)
    elseif ARGV[4] ~= '' or recipient ~= ARGV[3] then
        redis.call('XADD', messages, 'MAXLEN', '~', ARGV[6], '*', 'm', ARGV[5])
    end
end
return 0
";

impl Scripts {
    pub(super) fn new() -> Self {
        let with_register = |body: &str| Script::new(&format!("{DEFINE_REGISTER}{body}"));
        Self {
            register: with_register(REGISTER),
            load: Script::new(LOAD),
            save: with_register(SAVE),
            append: with_register(APPEND),
            read: Script::new(READ),
            send: Script::new(SEND),
        }
    }
}
