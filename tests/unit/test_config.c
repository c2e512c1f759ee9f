/* Options: the table itself, the three sources and their order, CONFIG GET/SET/REWRITE, and the rules between options. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "command/command.h"
#include "configrig.h"
#include "io/wholefile.h"
#include "server/options.h"
#include "server/optval.h"
#include "shard/journal.h"
#include "store/evict.h"

static void assert_refusal(const char *expected, char *const *env, int argc, const char *const *argv)
{
    struct loaded l;
    load_in(&l, env, argc, argv);
    assert_int_equal(l.outcome, CONFIG_BAD);
    assert_string_equal(l.error.p, expected);
    unload(&l);
}

static void write_temp(char path[32], const char *text)
{
    strcpy(path, "/tmp/sherd-config-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

static char got[4096];

static void note(void *ctx, const char *name, struct slice value)
{
    size_t n = strlen(got);
    snprintf(got + n, sizeof got - n, "%s=%.*s;", name, (int)value.n, value.n ? value.p : "");
}

static const char *get(struct config *cfg, const char *pattern)
{
    got[0] = '\0';
    config_get(cfg, slice_str(pattern), note, NULL);
    return got;
}

static const char *set(struct config *cfg, size_t count, const char *const *words)
{
    static char text[512];
    struct slice pairs[16];
    struct buf error = {0};
    for (size_t i = 0; i < count; i++) pairs[i] = slice_str(words[i]);
    int rc = config_set(cfg, pairs, count / 2, &error);
    snprintf(text, sizeof text, "%.*s", (int)error.len, error.len ? error.p : "");
    assert_int_equal(rc, error.len ? -1 : 0);
    buf_fini(&error);
    return text;
}
#define SET(cfg, ...) set(cfg, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *), (const char *const[]){__VA_ARGS__})

/* ---- the table */

static void every_row_has_a_default_that_survives_printing_and_reading(void **state)
{
    for (size_t i = 0; i < options_count(); i++) {
        const struct option *o = &options[i];
        struct optval v, again;
        struct buf text = {0}, second = {0};
        char why[200];
        assert_int_equal(optval_parse(o, slice_str(o->fallback), &v, why, sizeof why), 0);
        optval_format(o, &v, &text);
        assert_int_equal(optval_parse(o, buf_slice(&text), &again, why, sizeof why), 0);
        optval_format(o, &again, &second);
        assert_true(slice_eq(buf_slice(&text), buf_slice(&second)));
        assert_true(o->help && strlen(o->help) > 3);
        optval_fini(&v);
        optval_fini(&again);
        buf_fini(&text);
        buf_fini(&second);
    }
}

static void names_and_fields_stand_for_one_row_each(void **state)
{
    for (size_t i = 0; i < options_count(); i++) {
        assert_ptr_equal(options_find(slice_str(options[i].name)), &options[i]);
        for (int a = 0; a < OPTION_ALIASES && options[i].aliases[a]; a++)
            assert_ptr_equal(options_find(slice_str(options[i].aliases[a])), &options[i]);
        for (size_t k = 0; k < i; k++) {
            bool shared = options[k].field == options[i].field;
            if (shared && !((options[k].flags | options[i].flags) & OPTION_VIEW)) fail_msg("%s and %s share a field", options[k].name, options[i].name);
        }
    }
    assert_ptr_equal(options_find(SLICE("MaxMemory_Policy")), options_find(SLICE("maxmemory-policy")));
    assert_null(options_find(SLICE("nosuch")));
}

static void policies_are_numbered_as_the_store_has_them(void **state)
{
    const struct option *o = options_find(SLICE("maxmemory-policy"));
    for (int i = 0; i < EVICT_POLICIES; i++) assert_string_equal(o->words[i], evict_policy_name((enum evict_policy)i));
    assert_null(o->words[EVICT_POLICIES]);
}

static void views_of_a_field_have_the_same_default(void **state)
{
    int views = 0;
    for (size_t i = 0; i < options_count(); i++) {
        if (!(options[i].flags & OPTION_VIEW)) continue;
        views++;
        for (size_t k = 0; k < options_count(); k++) {
            struct optval a, b;
            char why[200];
            if (options[k].field != options[i].field) continue;
            assert_int_equal(optval_parse(&options[i], slice_str(options[i].fallback), &a, why, sizeof why), 0);
            assert_int_equal(optval_parse(&options[k], slice_str(options[k].fallback), &b, why, sizeof why), 0);
            assert_int_equal(a.num, b.num);
        }
    }
    assert_true(views > 0);
}

static void sync_policies_are_numbered_as_the_journal_has_them(void **state)
{
    static const char *const names[][2] = {[JOURNAL_EVERY_WRITE] = {"EveryWrite", "always"}, [JOURNAL_EVERY_SECOND] = {"EverySecond", "everysec"},
                                           [JOURNAL_OS_MANAGED] = {"OsManaged", "no"}};
    struct config cfg;
    config_init(&cfg);
    for (int i = 0; i < 3; i++) {
        char ours[64], theirs[64];
        snprintf(ours, sizeof ours, "sync-policy=%s;", names[i][0]);
        snprintf(theirs, sizeof theirs, "appendfsync=%s;", names[i][1]);
        for (int k = 0; k < 4; k++) { /* either name takes either word */
            assert_string_equal(SET(&cfg, k & 1 ? "sync_policy" : "appendfsync", names[i][k >> 1]), "");
            assert_int_equal(CONFIG_NUM(&cfg, sync_policy), i);
            assert_string_equal(get(&cfg, "sync-policy"), ours);
            assert_string_equal(get(&cfg, "appendfsync"), theirs);
        }
    }
    assert_non_null(strstr(SET(&cfg, "appendfsync", "always", "sync-policy", "OsManaged"), "duplicate parameter"));
    assert_non_null(strstr(SET(&cfg, "sync-policy", "Sometimes"), "must be one of the following: EveryWrite, EverySecond, OsManaged"));
    config_fini(&cfg);
}

static void save_is_the_snapshot_interval_in_other_words(void **state)
{
    struct config cfg;
    config_init(&cfg);
    assert_string_equal(get(&cfg, "save"), "save=3600 1;");
    assert_string_equal(SET(&cfg, "save", "60 10000 300 10 900 1"), "");
    assert_int_equal(CONFIG_NUM(&cfg, snapshot_interval_s), 900);
    assert_string_equal(SET(&cfg, "save", ""), "");
    assert_string_equal(get(&cfg, "snapshot-interval"), "snapshot-interval=0;");
    assert_string_equal(get(&cfg, "save"), "save=;");
    assert_string_equal(SET(&cfg, "snapshot_interval", "7"), "");
    assert_string_equal(get(&cfg, "save"), "save=7 1;");
    static const char *const bad[] = {"60", "0 1", "60 -1", "x 1", "60 1 60", "99999999999 1"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) assert_non_null(strstr(SET(&cfg, "save", bad[i]), "Invalid save parameters"));
    config_fini(&cfg);
}

static void help_and_markdown_name_every_option(void **state)
{
    struct buf help = {0}, page = {0};
    options_help(&help);
    options_markdown(&page);
    for (size_t i = 0; i < options_count(); i++) {
        assert_non_null(memmem(help.p, help.len, options[i].name, strlen(options[i].name)));
        assert_non_null(memmem(page.p, page.len, options[i].name, strlen(options[i].name)));
    }
    buf_fini(&help);
    buf_fini(&page);
}

/* ---- sources */

static void defaults_are_those_of_the_table(void **state)
{
    struct loaded l;
    load_in(&l, no_env, 0, NULL);
    assert_int_equal(l.outcome, CONFIG_READY);
    assert_int_equal(CONFIG_NUM(&l.cfg, port), 6379);
    assert_string_equal(l.cfg.bind, "127.0.0.1");
    assert_int_equal(CONFIG_NUM(&l.cfg, proto_max_bulk_len), 512 << 20);
    assert_int_equal(CONFIG_NUM(&l.cfg, client_output_buffer_limit.of[CONFIG_CLIENT_PUBSUB].hard_bytes), 32 << 20);
    assert_int_equal(CONFIG_NUM(&l.cfg, maxmemory_policy), EVICT_NONE);
    assert_int_equal(CONFIG_NUM(&l.cfg, list_max_listpack_size), -2);
    assert_true(config_workers(&l.cfg) >= 1);
    unload(&l);
}

static void the_command_line_has_all_its_forms(void **state)
{
    struct loaded l;
    load_in(&l, no_env,
         ARGS("--port", "7000", "--maxmemory=1gb", "--ephemeral", "--activerehashing", "no", "--bind", "127.0.0.1,::1  -127.0.0.2",
              "--requirepass=a=b", "--hash_max_ziplist_entries", "5", "--list-max-listpack-size", "-1", "--save", "", "--appendonly", "no"));
    assert_string_equal(l.error.p, "");
    assert_int_equal(l.outcome, CONFIG_READY);
    assert_int_equal(CONFIG_NUM(&l.cfg, port), 7000);
    assert_int_equal(CONFIG_NUM(&l.cfg, maxmemory), 1 << 30);
    assert_true(CONFIG_NUM(&l.cfg, ephemeral));
    assert_false(CONFIG_NUM(&l.cfg, compat.activerehashing));
    assert_string_equal(l.cfg.bind, "127.0.0.1 ::1 -127.0.0.2");
    assert_true(config_password_ok(&l.cfg, SLICE("a=b")));
    assert_int_equal(CONFIG_NUM(&l.cfg, hash_max_listpack_entries), 5);
    unload(&l);
}

static void later_sources_win(void **state)
{
    char path[32], option[64];
    write_temp(path, "port = 1\nhz = 2\nmaxclients = 3\nbind = ['127.0.0.1', \"::1\"]\nephemeral = true\nmaxmemory = \"2mb\"\n[storage]\ndata_dir = \"/d\"\n");
    snprintf(option, sizeof option, "SHERD_CONFIG=%s", path);
    char *env[] = {option, (char[]){"SHERD_HZ=20"}, (char[]){"SHERD_MAXCLIENTS=30"}, (char[]){"OTHER=1"}, NULL};
    struct loaded l;
    load_in(&l, env, ARGS("--maxclients", "300"));
    assert_string_equal(l.error.p, "");
    assert_int_equal(CONFIG_NUM(&l.cfg, port), 1);
    assert_int_equal(CONFIG_NUM(&l.cfg, compat.hz), 20);
    assert_int_equal(CONFIG_NUM(&l.cfg, maxclients), 300);
    assert_string_equal(l.cfg.bind, "127.0.0.1 ::1");
    assert_string_equal(l.cfg.data, "/d");
    assert_string_equal(l.cfg.config_path, path);
    assert_int_equal(CONFIG_NUM(&l.cfg, maxmemory), 2 << 20);
    unload(&l);
    unlink(path);
}

static const char storage_sections[] = "[ storage ]\ndata_dir = \"./data\"\nsync_policy = \"EveryWrite\" # EveryWrite | EverySecond | OsManaged\n"
                                       "max_wal_size = 10485760 # 10 MB\nsnapshot_interval = 300 # 5 minutes\ndumps_kept = 2\n"
                                       "[ compression ]\nprofile = \"high\" # none | fast | balanced | high\nmin_size = 256 # Don't compress values below\n";

static void storage_and_compression_have_sections_and_flat_names(void **state)
{
    char path[32];
    struct loaded l;
    write_temp(path, storage_sections);
    load_in(&l, no_env, ARGS("--config", path));
    assert_string_equal(l.error.p, "");
    assert_string_equal(l.cfg.data, "./data");
    assert_int_equal(CONFIG_NUM(&l.cfg, sync_policy), JOURNAL_EVERY_WRITE);
    assert_int_equal(CONFIG_NUM(&l.cfg, max_wal_size), 10 << 20);
    assert_int_equal(CONFIG_NUM(&l.cfg, snapshot_interval_s), 300);
    assert_int_equal(CONFIG_NUM(&l.cfg, dumps_kept), 2);
    assert_string_equal(get(&l.cfg, "compression-*"), "compression-profile=high;compression-min-size=256;");
    unload(&l);
    char *const env[] = {(char[]){"SHERD_MAX_WAL_SIZE=1mb"}, (char[]){"SHERD_DATA_DIR=/e"}, (char[]){"SHERD_COMPRESSION_PROFILE=none"}, NULL};
    load_in(&l, env, ARGS("--config", path, "--snapshot-interval", "9", "--compression-min-size=1kb"));
    assert_string_equal(l.error.p, "");
    assert_string_equal(l.cfg.data, "/e");
    assert_int_equal(CONFIG_NUM(&l.cfg, max_wal_size), 1 << 20);
    assert_int_equal(CONFIG_NUM(&l.cfg, snapshot_interval_s), 9);
    assert_string_equal(get(&l.cfg, "compression-*"), "compression-profile=none;compression-min-size=1024;");
    unload(&l);
    unlink(path);
}

static void rewrite_keeps_the_words_that_a_file_uses(void **state)
{
    static const char *const lines[][2] = {{"appendfsync = \"no\"\n", "appendfsync = \"always\"\n"},
                                           {"[storage]\nsync_policy = \"EverySecond\"\n", "[storage]\nsync_policy = \"EveryWrite\"\n"},
                                           {"", "sync-policy = \"EveryWrite\"\n"}};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        char path[32];
        struct loaded l;
        struct buf after = {0};
        write_temp(path, lines[i][0]);
        load_in(&l, no_env, ARGS("--config", path));
        assert_string_equal(SET(&l.cfg, "appendfsync", "always"), "");
        l.error.len = 0;
        assert_int_equal(config_rewrite(&l.cfg, &l.error), 0);
        assert_int_equal(wholefile_read(path, 4096, &after), 0);
        assert_true(slice_eq(buf_slice(&after), slice_str(lines[i][1])));
        buf_fini(&after);
        unload(&l);
        unlink(path);
    }
}

static void what_is_wrong_is_refused_by_name(void **state)
{
    assert_refusal("command line: unknown option 'prot' (did you mean 'port'?)", no_env, ARGS("--prot", "1"));
    assert_refusal("command line: unknown option 'zzzzzz'", no_env, ARGS("--zzzzzz"));
    assert_refusal("--port needs a value", no_env, ARGS("--port"));
    assert_refusal("--port: argument must be between 0 and 65535 inclusive", no_env, ARGS("--port", "70000"));
    assert_refusal("--port: argument couldn't be parsed into an integer", no_env, ARGS("--port", "0x10"));
    assert_refusal("--maxmemory: argument must be a memory value", no_env, ARGS("--maxmemory", "1 gb"));
    assert_refusal("--log-level: argument(s) must be one of the following: debug, verbose, notice, warning", no_env, ARGS("--loglevel", "loud"));
    assert_refusal("unexpected argument 'sherd.conf'", no_env, ARGS("sherd.conf"));
    assert_refusal("--ephemeral: argument must be 'yes' or 'no'", no_env, ARGS("--ephemeral=maybe"));
    assert_refusal("--unixsocketperm: argument couldn't be parsed as an octal number", no_env, ARGS("--unixsocketperm", "8"));
    assert_refusal("--save: Invalid save parameters", no_env, ARGS("--save", "900"));
    char *env[] = {(char[]){"SHERD_PROT=1"}, NULL};
    assert_refusal("environment SHERD_PROT: unknown option 'PROT' (did you mean 'port'?)", env, 0, NULL);
    char *bad_value[] = {(char[]){"SHERD_PORT=x"}, NULL};
    assert_refusal("environment SHERD_PORT: argument couldn't be parsed into an integer", bad_value, 0, NULL);
    assert_refusal("/nonexistent.toml: cannot read: No such file or directory", no_env, ARGS("--config", "/nonexistent.toml"));
}

static void what_is_wrong_in_a_file_is_refused_with_its_line(void **state)
{
    static const struct {
        const char *text, *error;
    } cases[] = {
        {"\nprot = 1\n", "2: unknown option 'prot' (did you mean 'port'?)"},
        {"port = 1\n\nport = 2\n", "3: key 'port' stands twice"},
        {"data = 'a'\n[storage]\ndata_dir = 'b'\n", "3: data is set already in line 1"},
        {"appendfsync = 'no'\n[storage]\nsync_policy = 'EveryWrite'\n", "3: sync-policy is set already in line 1"},
        {"[storage]\nsize = 1\n", "2: unknown option 'size' in [storage]"},
        {"port = \"high\"", "1: port: argument couldn't be parsed into an integer"},
        {"port = 1.5", "1: port: a number, a string, a boolean or an array of these is needed"},
        {"port = ", "1: a value is missing"},
        {"config = 'x'", "1: unknown option 'config'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char path[32], expected[300];
        write_temp(path, cases[i].text);
        snprintf(expected, sizeof expected, "%s:%s", path, cases[i].error);
        assert_refusal(expected, no_env, ARGS("--config", path));
        unlink(path);
    }
}

static void modes_are_told_apart(void **state)
{
    struct loaded l;
    load_in(&l, no_env, ARGS("--help"));
    assert_int_equal(l.outcome, CONFIG_SHOW_HELP);
    unload(&l);
    load_in(&l, no_env, ARGS("--port", "1", "--check-config"));
    assert_int_equal(l.outcome, CONFIG_CHECKED);
    unload(&l);
    assert_refusal("--port: argument must be between 0 and 65535 inclusive", no_env, ARGS("--check-config", "--port", "-1"));
}

/* ---- rules between options */

static void the_open_network_needs_a_password(void **state)
{
    static const char refusal[] = "without a password the server would be open to everyone who can reach 0.0.0.0: set requirepass, "
                                  "bind to 127.0.0.1, or say protected-mode no";
    struct loaded l;
    assert_refusal(refusal, no_env, ARGS("--bind", "127.0.0.1 0.0.0.0"));
    load_in(&l, no_env, ARGS("--bind", "0.0.0.0", "--protected-mode", "no"));
    assert_int_equal(l.outcome, CONFIG_READY);
    unload(&l);
    load_in(&l, no_env, ARGS("--bind", "0.0.0.0", "--requirepass", "secret"));
    assert_int_equal(l.outcome, CONFIG_READY);
    assert_non_null(strstr(SET(&l.cfg, "requirepass", ""), "without a password the server would be open"));
    assert_true(config_password_ok(&l.cfg, SLICE("secret")));
    assert_string_equal(SET(&l.cfg, "requirepass", "", "protected-mode", "no"), "");
    unload(&l);
    load_in(&l, no_env, ARGS("--bind", "127.0.0.1 -::1 localhost"));
    assert_int_equal(l.outcome, CONFIG_READY);
    unload(&l);
    assert_refusal("nothing to listen on: port is 0 and unixsocket is empty", no_env, ARGS("--port", "0"));
}

static void only_the_whole_password_is_right(void **state)
{
    struct loaded l;
    load_in(&l, no_env, ARGS("--requirepass", "abab"));
    assert_true(config_password_ok(&l.cfg, SLICE("abab")));
    assert_false(config_password_ok(&l.cfg, SLICE("ab")));
    assert_false(config_password_ok(&l.cfg, SLICE("abababab")));
    assert_false(config_password_ok(&l.cfg, SLICE("abac")));
    assert_false(config_password_ok(&l.cfg, SLICE("")));
    assert_true(CONFIG_NUM(&l.cfg, has_password));
    unload(&l);
}

/* ---- CONFIG GET and SET */

static void get_finds_names_and_aliases_by_glob(void **state)
{
    struct config cfg;
    config_init(&cfg);
    assert_string_equal(get(&cfg, "maxmemory"), "maxmemory=0;");
    assert_string_equal(get(&cfg, "HASH-max-*"), "hash-max-listpack-entries=128;hash-max-ziplist-entries=128;"
                                                 "hash-max-listpack-value=64;hash-max-ziplist-value=64;");
    assert_string_equal(get(&cfg, "save"), "save=3600 1;");
    assert_string_equal(get(&cfg, "dir"), "dir=./data;");
    assert_string_equal(get(&cfg, "client-output-buffer-limit"),
                        "client-output-buffer-limit=normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60;");
    assert_string_equal(get(&cfg, "config"), "");
    assert_string_equal(get(&cfg, "nosuch"), "");
    config_fini(&cfg);
}

static void count_change(void *ctx) { (*(int *)ctx)++; }

static void set_changes_all_pairs_or_none(void **state)
{
    struct config cfg;
    int changes = 0;
    config_init(&cfg);
    cfg.on_change = count_change;
    cfg.on_change_ctx = &changes;
    assert_string_equal(SET(&cfg, "maxmemory", "100mb", "maxmemory-policy", "allkeys-lru"), "");
    assert_string_equal(get(&cfg, "maxmemory-p*"), "maxmemory-policy=allkeys-lru;");
    assert_string_equal(SET(&cfg, "maxmemory", "5", "maxmemory-policy", "x"),
                        "CONFIG SET failed (possibly related to argument 'maxmemory-policy') - argument(s) must be one of the following: noeviction, "
                        "allkeys-lru, allkeys-lfu, allkeys-random, volatile-lru, volatile-lfu, volatile-random, volatile-ttl, cold");
    assert_string_equal(SET(&cfg, "hz", "5", "nosuch", "x"), "Unknown option or number of arguments for CONFIG SET - 'nosuch'");
    assert_string_equal(SET(&cfg, "hz", "5", "hz", "6"), "CONFIG SET failed (possibly related to argument 'hz') - duplicate parameter");
    assert_string_equal(SET(&cfg, "port", "1"), "CONFIG SET failed (possibly related to argument 'port') - can't set immutable config");
    assert_int_equal(CONFIG_NUM(&cfg, maxmemory), 104857600);
    assert_int_equal(CONFIG_NUM(&cfg, compat.hz), 10);
    assert_int_equal(changes, 1);
    config_fini(&cfg);
}

static void keyspace_events_are_letters(void **state)
{
    struct config cfg;
    config_init(&cfg);
    assert_string_equal(SET(&cfg, "notify-keyspace-events", "KEA"), "");
    assert_string_equal(get(&cfg, "notify*"), "notify-keyspace-events=AKE;");
    assert_string_equal(SET(&cfg, "notify-keyspace-events", "Ex$m"), "");
    assert_int_equal(CONFIG_NUM(&cfg, notify_keyspace_events), NOTIFY_KEYEVENT | NOTIFY_EXPIRED | NOTIFY_STRING | NOTIFY_KEY_MISS);
    assert_string_equal(get(&cfg, "notify*"), "notify-keyspace-events=$xEm;");
    assert_non_null(strstr(SET(&cfg, "notify-keyspace-events", "Q"), "Invalid event class character"));
    config_fini(&cfg);
}

static void one_class_of_client_limits_can_be_set_alone(void **state)
{
    struct config cfg;
    config_init(&cfg);
    assert_string_equal(SET(&cfg, "client-output-buffer-limit", "replica 1mb 2kb 3 normal 7 0 0"), "");
    assert_string_equal(get(&cfg, "client-output*"), "client-output-buffer-limit=normal 7 0 0 slave 1048576 2048 3 pubsub 33554432 8388608 60;");
    assert_non_null(strstr(SET(&cfg, "client-output-buffer-limit", "normal 1 2"), "Wrong number of arguments"));
    assert_non_null(strstr(SET(&cfg, "client-output-buffer-limit", "strange 1 2 3"), "Invalid client class"));
    assert_non_null(strstr(SET(&cfg, "client-output-buffer-limit", "normal 1 x 3"), "Error in hard, soft"));
    config_fini(&cfg);
}

/* ---- CONFIG REWRITE */

static void rewrite_changes_values_and_keeps_everything_else(void **state)
{
    char path[32];
    struct loaded l;
    struct buf after = {0};
    write_temp(path, "# my server\nhz = 10   # calm\nmaxmemory = \"1gb\" # enough\nbind = [\n  \"127.0.0.1\", # v4\n]\n\n[storage] # disks\ndata_dir = '/d'\n");
    load_in(&l, no_env, ARGS("--config", path, "--requirepass", "q\"\\"));
    assert_string_equal(l.error.p, "");
    assert_string_equal(SET(&l.cfg, "hz", "50", "latency-tracking", "no"), "");
    l.error.len = 0;
    assert_int_equal(config_rewrite(&l.cfg, &l.error), 0);
    assert_int_equal(wholefile_read(path, 4096, &after), 0);
    buf_add_byte(&after, '\0');
    assert_string_equal(after.p, "# my server\nhz = 50   # calm\nmaxmemory = \"1gb\" # enough\nbind = [\n  \"127.0.0.1\", # v4\n]\n\n"
                                 "requirepass = \"q\\\"\\\\\"\nlatency-tracking = false\n[storage] # disks\ndata_dir = '/d'\n");
    unload(&l);
    load_in(&l, no_env, ARGS("--config", path));
    assert_string_equal(l.error.p, "");
    assert_int_equal(CONFIG_NUM(&l.cfg, compat.hz), 50);
    assert_true(config_password_ok(&l.cfg, SLICE("q\"\\")));
    unload(&l);
    buf_fini(&after);
    unlink(path);
}

static void rewrite_gives_back_every_kind_of_value(void **state)
{
    char path[32];
    struct loaded l;
    char before[4096];
    write_temp(path, "");
    load_in(&l, no_env,
         ARGS("--config", path, "--bind", "127.0.0.1 ::1", "--unixsocketperm", "700", "--notify-keyspace-events", "KEA", "--ephemeral",
              "--client-output-buffer-limit", "normal 1 2 3", "--log-format", "logfmt", "--slowlog-log-slower-than", "-1"));
    assert_string_equal(l.error.p, "");
    l.error.len = 0;
    assert_int_equal(config_rewrite(&l.cfg, &l.error), 0);
    strcpy(before, get(&l.cfg, "[a-l]*"));
    strcat(before, get(&l.cfg, "[m-z]*"));
    unload(&l);
    load_in(&l, no_env, ARGS("--config", path));
    assert_string_equal(l.error.p, "");
    char after[4096];
    strcpy(after, get(&l.cfg, "[a-l]*"));
    strcat(after, get(&l.cfg, "[m-z]*"));
    assert_string_equal(before, after);
    assert_non_null(strstr(after, "unixsocketperm=700;"));
    unload(&l);
    unlink(path);
}

static void rewrite_without_a_file_says_so(void **state)
{
    struct config cfg;
    struct buf error = {0};
    config_init(&cfg);
    assert_int_equal(config_rewrite(&cfg, &error), -1);
    assert_true(slice_eq(buf_slice(&error), SLICE("The server is running without a config file")));
    buf_fini(&error);
    config_fini(&cfg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_has_a_default_that_survives_printing_and_reading),
        cmocka_unit_test(names_and_fields_stand_for_one_row_each),
        cmocka_unit_test(views_of_a_field_have_the_same_default),
        cmocka_unit_test(sync_policies_are_numbered_as_the_journal_has_them),
        cmocka_unit_test(save_is_the_snapshot_interval_in_other_words),
        cmocka_unit_test(storage_and_compression_have_sections_and_flat_names),
        cmocka_unit_test(rewrite_keeps_the_words_that_a_file_uses),
        cmocka_unit_test(policies_are_numbered_as_the_store_has_them),
        cmocka_unit_test(help_and_markdown_name_every_option),
        cmocka_unit_test(defaults_are_those_of_the_table),
        cmocka_unit_test(the_command_line_has_all_its_forms),
        cmocka_unit_test(later_sources_win),
        cmocka_unit_test(what_is_wrong_is_refused_by_name),
        cmocka_unit_test(what_is_wrong_in_a_file_is_refused_with_its_line),
        cmocka_unit_test(modes_are_told_apart),
        cmocka_unit_test(the_open_network_needs_a_password),
        cmocka_unit_test(only_the_whole_password_is_right),
        cmocka_unit_test(get_finds_names_and_aliases_by_glob),
        cmocka_unit_test(set_changes_all_pairs_or_none),
        cmocka_unit_test(keyspace_events_are_letters),
        cmocka_unit_test(one_class_of_client_limits_can_be_set_alone),
        cmocka_unit_test(rewrite_changes_values_and_keeps_everything_else),
        cmocka_unit_test(rewrite_gives_back_every_kind_of_value),
        cmocka_unit_test(rewrite_without_a_file_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
