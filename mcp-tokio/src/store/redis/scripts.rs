//! Scripts in Lua, each of which the store carries out in one step. The comment of each script names its keys, and its
//! arguments in order.
//!
//! A record is a hash: `v` is its version, `d` its bytes.
//!
//! A stream is a hash, too, so that its events and what is known of them cannot expire or be evicted apart from each other:
//! `n` is the number of the next event, `f` that of the first one that is stored, `b` how many bytes are stored, `l` the
//! label, `z` is there if the stream has ended, and the decimal number of an event is the field of its bytes.
//!
//! In both, `t:` with the name of a sender is the number of its last action, and what that returned. A sender is an instance
//! and a process, which numbers its actions. An attempt that arrives after a later one, perhaps over an old connection, is
//! recognised by its number and has no effect. What is removed leaves these fields for [`LATE_MS`].
//!
//! The messages to an instance are a Redis stream whose field `m` is the message. Its first entry has none.
//!
//! Whatever the values are, a script ends after as many steps as there are values, and has no effect on other sessions.

use redis::Script;

/// How long an instance is found after it was last registered.
pub(super) const FOUND_FOR_MS: u64 = 10_000;
/// The messages that wait for an instance; older ones are dropped.
pub(super) const WAITING: usize = 10_000;
/// How long an attempt may be on its way to a record, a stream or an instance that is not there any more.
pub(super) const LATE_MS: u64 = 600_000;

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
    /// of `register`, those of `Attempt`, the expected version, the bytes, the milliseconds until it expires. Returns 1, or
    /// 0 if another version is stored.
    pub(super) save: Script,
    /// Keys: that of the stream, and those of `register`. Arguments: those of `register`, those of `Attempt`, the number of
    /// the first event or 0, 1 or 0 for whether the stream ends, the bytes to keep, the milliseconds until it expires, the
    /// label, the events. Returns 1, or 0 if there is a gap or the stream has ended.
    pub(super) append: Script,
    /// Key: that of the stream. Arguments: the number of the event before, or -1 for the last one; the limit of bytes.
    /// Returns nothing, or: the label, the number of the first event, whether the stream has ended, the events.
    pub(super) read: Script,
    /// Keys: those of the records and streams to remove. Arguments: those of `Attempt`.
    pub(super) forget: Script,
    /// Keys: that of the last message of the sender, that of the set. Arguments: those of `Attempt`, the prefix of the keys
    /// of instances, the sending instance, the recipient or nothing for all, the message, [`WAITING`].
    pub(super) send: Script,
}

/// How instances are registered. A value of another type, which none of them has written, is replaced.
const DEFINE_REGISTER: &str = r"
local function add(instances, id, found_for)
    if type(redis.pcall('SADD', instances, id)) == 'table' then
        redis.call('DEL', instances)
        redis.call('SADD', instances, id)
    end
    redis.call('PEXPIRE', instances, found_for)
end
local function register(messages, instances, id, found_for)
    if redis.call('EXISTS', messages) == 0 then
        redis.call('XADD', messages, '*', 'j', '')
        redis.call('PEXPIRE', messages, found_for)
        add(instances, id, found_for)
    end
end
";

/// How an attempt of an action is recognised. Each script that contains this has three arguments, called `Attempt`
/// above: the name of the sender, the number of its action, [`LATE_MS`].
const DEFINE_ATTEMPT: &str = r"
local function earlier(key, sender, action)
    local last = redis.call('HGET', key, 't:' .. sender)
    local number, result = string.match(last or '', '^(%d+) (%d)$')
    if not number or tonumber(action) > tonumber(number) then return nil end
    if tonumber(action) == tonumber(number) then return tonumber(result) end
    return 0
end
local function done(key, sender, action, late, result)
    redis.call('HSET', key, 't:' .. sender, action .. ' ' .. result)
    if redis.call('PTTL', key) < 0 then redis.call('PEXPIRE', key, late) end
    return result
end
";

/// How numbers are read: up to 2^53 - 1, so that adding one to any of them gives another number.
const DEFINE_NUMBERS: &str = r"
local LAST = 9007199254740991
local function whole(text, least)
    local value = tonumber(text)
    if value and value >= least and value <= LAST and value == math.floor(value) then return value end
    return nil
end
local function field(number) return string.format('%.0f', number) end
";

const REGISTER: &str = r"
register(KEYS[1], KEYS[2], ARGV[1], ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
add(KEYS[2], ARGV[1], ARGV[2])
local about = redis.pcall('XINFO', 'STREAM', KEYS[1])
if about.err then
    redis.call('DEL', KEYS[1])
    register(KEYS[1], KEYS[2], ARGV[1], ARGV[2])
    return '0-0'
end
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
local before = earlier(KEYS[1], ARGV[3], ARGV[4])
if before then return before end
register(KEYS[2], KEYS[3], ARGV[1], ARGV[2])
local expected = tonumber(ARGV[6])
local stored = redis.call('HMGET', KEYS[1], 'v', 'd')
local version = whole(stored[1] or 0, 0)
local is_repeated = version == expected + 1 and stored[2] == ARGV[7]
if (version ~= expected and not is_repeated) or expected >= LAST then
    return done(KEYS[1], ARGV[3], ARGV[4], ARGV[5], 0)
end
redis.call('HSET', KEYS[1], 'v', field(expected + 1), 'd', ARGV[7])
redis.call('PEXPIRE', KEYS[1], ARGV[8])
redis.call('PEXPIRE', KEYS[4], ARGV[8])
return done(KEYS[1], ARGV[3], ARGV[4], ARGV[5], 1)
";

const APPEND: &str = r"
local before = earlier(KEYS[1], ARGV[3], ARGV[4])
if before then return before end
register(KEYS[2], KEYS[3], ARGV[1], ARGV[2])
local function refused() return done(KEYS[1], ARGV[3], ARGV[4], ARGV[5], 0) end
local stored = redis.call('HMGET', KEYS[1], 'n', 'f', 'b', 'z')
local next, oldest, bytes = whole(stored[1] or 1, 1), whole(stored[2] or 1, 1), whole(stored[3] or 0, 0)
if not next or not oldest or not bytes or oldest > next then return refused() end
local first, given = tonumber(ARGV[6]), #ARGV - 10
if first == 0 then first = next end
if first > next or first + given > LAST then return refused() end
local skipped = next - first
if stored[4] and given > skipped then return refused() end
for at = skipped + 1, given do
    local event = ARGV[10 + at]
    redis.call('HSET', KEYS[1], field(next), event)
    next, bytes = next + 1, bytes + #event
end
local keep = tonumber(ARGV[8])
while bytes > keep and oldest < next do
    bytes = math.max(bytes - redis.call('HSTRLEN', KEYS[1], field(oldest)), 0)
    if redis.call('HDEL', KEYS[1], field(oldest)) == 0 then
        oldest, bytes = next, 0
    else
        oldest = oldest + 1
    end
end
redis.call('HSET', KEYS[1], 'n', field(next), 'f', field(oldest), 'b', field(bytes))
if not stored[1] then redis.call('HSET', KEYS[1], 'l', ARGV[10]) end
if ARGV[7] == '1' then redis.call('HSET', KEYS[1], 'z', '') end
redis.call('PEXPIRE', KEYS[1], ARGV[9])
return done(KEYS[1], ARGV[3], ARGV[4], ARGV[5], 1)
";

/// A stream whose events are not all there is none.
const READ: &str = r"
local MOST = 4096
local stored = redis.call('HMGET', KEYS[1], 'n', 'f', 'z', 'l')
local next, oldest = whole(stored[1], 1), whole(stored[2], 1)
if not next or not oldest then return false end
local first = tonumber(ARGV[1]) + 1
if first == 0 then first = next end
if first < oldest or first > next then return false end
local limit, bytes, events, at = tonumber(ARGV[2]), 0, {}, first
while at < next and #events < MOST do
    bytes = bytes + redis.call('HSTRLEN', KEYS[1], field(at))
    if bytes > limit and #events > 0 then break end
    local event = redis.call('HGET', KEYS[1], field(at))
    if not event then return false end
    events[#events + 1] = event
    at = at + 1
end
local is_last = (stored[3] and at == next) and 1 or 0
return { stored[4] or '', first, is_last, events }
";

const FORGET: &str = r"
for _, key in ipairs(KEYS) do
    if redis.call('TYPE', key).ok ~= 'hash' then redis.call('UNLINK', key) end
    if not earlier(key, ARGV[1], ARGV[2]) then
        local kept = {}
        for _, name in ipairs(redis.call('HKEYS', key)) do
            if string.sub(name, 1, 2) == 't:' then kept[name] = redis.call('HGET', key, name) end
        end
        redis.call('UNLINK', key)
        for name, last in pairs(kept) do redis.call('HSET', key, name, last) end
        done(key, ARGV[1], ARGV[2], ARGV[3], 1)
    end
end
return 1
";

/// A damaged value is removed: the instances register again.
const SEND: &str = r"
if redis.call('TYPE', KEYS[1]).ok ~= 'hash' then redis.call('DEL', KEYS[1]) end
if redis.call('TYPE', KEYS[2]).ok ~= 'set' then redis.call('DEL', KEYS[2]) end
if earlier(KEYS[1], ARGV[1], ARGV[2]) then return 0 end
done(KEYS[1], ARGV[1], ARGV[2], ARGV[3], 0)
redis.call('PEXPIRE', KEYS[1], ARGV[3])
local recipients = { ARGV[6] }
if ARGV[6] == '' then recipients = redis.call('SMEMBERS', KEYS[2]) end
for _, recipient in ipairs(recipients) do
    local messages = ARGV[4] .. recipient
    if redis.call('EXISTS', messages) == 0 then
        redis.call('SREM', KEYS[2], recipient)
    elseif ARGV[6] ~= '' or recipient ~= ARGV[5] then
        local added = redis.pcall('XADD', messages, 'MAXLEN', '~', ARGV[8], '*', 'm', ARGV[7])
        if type(added) == 'table' then redis.call('DEL', messages) end
    end
end
return 0
";

impl Scripts {
    pub(super) fn new() -> Self {
        let with = |definitions: &[&str], body: &str| Script::new(&[definitions, &[body]].concat().concat());
        Self {
            register: with(&[DEFINE_REGISTER], REGISTER),
            load: Script::new(LOAD),
            save: with(&[DEFINE_REGISTER, DEFINE_ATTEMPT, DEFINE_NUMBERS], SAVE),
            append: with(&[DEFINE_REGISTER, DEFINE_ATTEMPT, DEFINE_NUMBERS], APPEND),
            read: with(&[DEFINE_NUMBERS], READ),
            forget: with(&[DEFINE_ATTEMPT], FORGET),
            send: with(&[DEFINE_ATTEMPT], SEND),
        }
    }
}
