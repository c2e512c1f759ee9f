/* sherd snapshot repl: the commands of `sherd snapshot` on one open reader, with line editing and history on a terminal; without one, lines from standard input. */
#include <histedit.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/snapshot_read.h"
#include "cli/subcommand.h"

enum { WORDS_MAX = 1024, HISTORY_LINES = 1000 };

struct shell {
    struct snapread *r;
    bool is_terminal;
    EditLine *edit;
    History *history;
    char history_path[PATH_MAX];
    char *line; /* without a terminal */
    size_t room;
};

static char *prompt(EditLine *e) { return (char *)"sherd> "; }

/* ---- lines */

/* Cuts a line into words in place: spaces separate, quotes hold together, a backslash takes the next character as it is (not between single quotes). Gives their number, -1 if a quote is open. */
static int cut(char *line, char **words)
{
    int n = 0;
    char *from = line, *to = line;
    while (n < WORDS_MAX) {
        while (*from == ' ' || *from == '\t' || *from == '\n' || *from == '\r') from++;
        if (!*from) return n;
        words[n++] = to;
        char quote = 0;
        for (; *from && (quote || !strchr(" \t\r\n", *from)); from++) {
            if (quote ? *from == quote : *from == '"' || *from == '\'')
                quote = quote ? 0 : *from;
            else if (*from == '\\' && quote != '\'' && from[1])
                *to++ = *++from;
            else
                *to++ = *from;
        }
        if (quote) return -1;
        bool at_end = !*from;
        *to++ = 0;
        if (at_end) return n;
        from++;
    }
    return n;
}

static int set_output(struct shell *s, int argc, char **argv)
{
    static const char *const names[SNAPREAD_OUTPUTS] = {"text", "table", "json", "jsonl"};
    for (int i = 0; argc == 2 && i < SNAPREAD_OUTPUTS; i++) {
        if (strcmp(argv[1], names[i]) != 0) continue;
        s->r->args->output = (enum snapread_output)i;
        return EXIT_WELL;
    }
    fprintf(stderr, "sherd: output: text, table, json or jsonl\n");
    return EXIT_USAGE;
}

/* False: the shell ends. */
static bool run_line(struct shell *s, char *line, int *code)
{
    char *words[WORDS_MAX];
    int n = cut(line, words);
    if (n < 0) {
        fprintf(stderr, "sherd: a quote is not closed\n");
        *code = EXIT_USAGE;
        return true;
    }
    if (n == 0 || words[0][0] == '#') return true;
    if (strcmp(words[0], "quit") == 0 || strcmp(words[0], "exit") == 0) return false;
    int one = EXIT_WELL;
    if (strcmp(words[0], "help") == 0)
        snapread_line_help(s->r->out);
    else if (strcmp(words[0], "output") == 0)
        one = set_output(s, n, words);
    else
        one = snapread_line(s->r, n, words);
    if (one < 0) fprintf(stderr, "sherd: unknown command '%s'; try help\n", words[0]);
    if (one != EXIT_WELL) *code = one < 0 ? EXIT_USAGE : one;
    return true;
}

/* ---- the terminal */

static void find_history(struct shell *s)
{
    const char *home = getenv("HOME");
    if (!home || (size_t)snprintf(s->history_path, sizeof s->history_path, "%s/.sherd_snapshot_history", home) >= sizeof s->history_path) s->history_path[0] = 0;
}

static void begin_terminal(struct shell *s)
{
    HistEvent event;
    s->edit = el_init("sherd", stdin, stdout, stderr);
    s->history = history_init();
    history(s->history, &event, H_SETSIZE, HISTORY_LINES);
    history(s->history, &event, H_SETUNIQUE, 1);
    find_history(s);
    if (s->history_path[0]) history(s->history, &event, H_LOAD, s->history_path);
    el_set(s->edit, EL_PROMPT, prompt);
    el_set(s->edit, EL_EDITOR, "emacs");
    el_set(s->edit, EL_SIGNAL, 1);
    el_set(s->edit, EL_HIST, history, s->history);
    el_source(s->edit, NULL);
    printf("%s: try help; quit ends\n", s->r->args->url);
}

static void end_terminal(struct shell *s)
{
    HistEvent event;
    mode_t before = umask(077); /* keys may be nobody else's business */
    if (s->history_path[0]) history(s->history, &event, H_SAVE, s->history_path);
    umask(before);
    history_end(s->history);
    el_end(s->edit);
}

static char *next_line(struct shell *s)
{
    if (!s->is_terminal) return getline(&s->line, &s->room, stdin) > 0 ? mem_strdup(s->line) : NULL;
    int n;
    const char *line = el_gets(s->edit, &n);
    if (!line || n <= 0) return NULL;
    HistEvent event;
    if (line[0] != '\n') history(s->history, &event, H_ENTER, line);
    return mem_strdup(line);
}

int snapread_repl(struct snapread *r)
{
    struct shell s = {.r = r, .is_terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO)};
    int code = EXIT_WELL;
    bool going = true;
    if (s.is_terminal) begin_terminal(&s);
    while (going) {
        char *line = next_line(&s);
        if (!line) break;
        going = run_line(&s, line, &code);
        mem_free(line);
    }
    if (s.is_terminal) end_terminal(&s);
    free(s.line);
    return s.is_terminal ? EXIT_WELL : code;
}
