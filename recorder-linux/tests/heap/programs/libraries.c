// libraries: a program with thousands of functions of Lua, SQLite and zlib, linked as archives. Prints what they compute, which
// is the same each time.
#include <lua5.4/lua.h>
#include <lua5.4/lauxlib.h>
#include <lua5.4/lualib.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

static const char lua_code[] =
    "local t = {} for i = 1, 2000 do t[i] = (i * 7919) % 1009 end table.sort(t, function(a, b) return a < b end)\n"
    "print(t[1], t[1000], t[2000])\n"
    "local s = string.rep('ab,', 300):gsub('a', function(x) return x:upper() end) print(#s, s:sub(1, 10), s:find('b,A', 50))\n"
    "local co = coroutine.wrap(function() for i = 1, 50 do coroutine.yield(i * i) end end)\n"
    "local sum = 0 for i = 1, 50 do sum = sum + co() end print(sum)\n"
    "print(pcall(function() error('c') end)) print(select(2, pcall(function() local x = nil return x.y end)))\n"
    "local function fib(n) if n < 2 then return n end return fib(n - 1) + fib(n - 2) end print(fib(18))\n"
    "local m = setmetatable({}, {__index = function(t, k) return k * 2 end, __call = function(self, a) return a + 1 end})\n"
    "print(m[21], m(5), string.format('%5.2f %q %x %g', 3.14159, 'hi\\n', 255, 1e100), 10 // 3, 7.5 // 2, 1 << 40, ~5)\n"
    "for w in ('the quick brown fox'):gmatch('%a+') do io.write(w:reverse(), ' ') end collectgarbage()\n"
    "print(load('return 1+')) print(utf8.char(228, 8364)) goto done ::done:: print(string.pack('<i4z', 77, 'abc'):byte(1, -1))\n";

static const char sql[] =
    "create table t(a integer primary key, b text, c real); create index i on t(b);"
    "with recursive n(x) as (select 1 union all select x + 1 from n where x < 3000)"
    " insert into t select x, 'name' || (x * 7919 % 1009), x / 3.0 from n;"
    "select count(*), sum(c), min(b), max(b) from t; select b, count(*) k from t group by b order by k desc, b limit 5;"
    "select a.b, b.a from t a join t b on a.b = b.b where a.a < 5 order by 1, 2;"
    "update t set c = c * 2 where a % 3 = 0; delete from t where a % 5 = 0; select count(*), round(total(c), 3) from t;"
    "select group_concat(b, '-') from (select b from t order by a limit 10);"
    "select row_number() over (order by b desc), b from t limit 3; select json_extract('{\"a\":[1,2,{\"b\":5}]}', '$.a[2].b');"
    "select printf('%08.3f|%x|%s', 3.14159, 255, 'z'), upper('abc'), date('2020-02-29', '+1 year'), hex(zeroblob(3));"
    "create table f(x); begin; insert into f values(1); rollback; select count(*) from f;"
    "create virtual table r using rtree(id, a, b); insert into r values(1, 2, 3), (2, 4, 8); select * from r where a > 3;"
    "create virtual table x using fts5(y); insert into x values('hello world'), ('brown fox');"
    "select * from x where x match 'fox'; pragma integrity_check; vacuum; select * from nope;";

static int print_row(void *nothing, int columns, char **values, char **names) {
    for (int i = 0; i < columns; i++)
        printf("%s|", values[i] ? values[i] : "-");
    puts("");
    return 0;
}

static unsigned char bytes[200000], packed[250000], unpacked[200000];

int main(void) {
    lua_State *lua = luaL_newstate();
    luaL_openlibs(lua);
    if (luaL_dostring(lua, lua_code)) printf("%s\n", lua_tostring(lua, -1));
    lua_close(lua);

    sqlite3 *database;
    char *error = NULL;
    sqlite3_open(":memory:", &database);
    if (sqlite3_exec(database, sql, print_row, NULL, &error)) printf("%s\n", error);
    sqlite3_free(error);
    sqlite3_close(database);

    unsigned random = 1;
    for (int i = 0; i < 200000; i++) {
        random = random * 1103515245 + 12345;
        bytes[i] = (random >> 16) % (1 + i / 2000) + 'a';
    }
    for (int level = 0; level <= 9; level++) {
        uLongf length = sizeof packed, rest = sizeof unpacked;
        compress2(packed, &length, bytes, sizeof bytes, level);
        int result = uncompress(unpacked, &rest, packed, length);
        printf("%d %lu %d %d %08lx\n", level, length, result, memcmp(bytes, unpacked, rest), crc32(0, packed, length));
    }
    return 0;
}
