/* See chat_talk.h. */
#include "cli/chat_talk.h"
#include "cli/json_in.h"
#include "cli/json_out.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char *const role_names[] = {"system", "user", "assistant", NULL};

/* ---- messages ---- */

static cli_exit grow(cli_talk *t)
{
    if (t->n < t->cap) return CLI_DONE;
    size_t cap = t->cap ? 2 * t->cap : 16;
    cli_talk_message *larger = realloc(t->messages, cap * sizeof *larger);
    if (!larger) return cli_fail_memory("the conversation");
    t->messages = larger;
    t->cap = cap;
    return CLI_DONE;
}

/* Inserts at index i; json becomes t's, also on failure. */
static cli_exit insert(cli_talk *t, size_t i, cli_role role, char *json, size_t n_bytes)
{
    cli_exit code = grow(t);
    if (code != CLI_DONE) {
        free(json);
        return code;
    }
    memmove(t->messages + i + 1, t->messages + i, (t->n - i) * sizeof *t->messages);
    t->messages[i] = (cli_talk_message){.role = role, .json = json, .n_bytes = n_bytes};
    t->n++;
    return CLI_DONE;
}

static void forget(cli_talk *t, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++)
        free(t->messages[i].json);
    if (to < t->n) memmove(t->messages + from, t->messages + to, (t->n - to) * sizeof *t->messages);
    t->n -= to - from;
}

static cli_exit make_message(cli_role role, const char *text, size_t n_bytes, char **json, size_t *n_json)
{
    FILE *f = open_memstream(json, n_json);
    if (!f) return cli_fail_memory("a message");
    fprintf(f, "{\"role\": \"%s\", \"content\": ", role_names[role]);
    cli_json_put_string(f, text, n_bytes);
    fputs("}", f);
    bool bad = ferror(f) != 0;
    if (fclose(f) == 0 && !bad) return CLI_DONE;
    free(*json);
    return cli_fail_memory("a message");
}

cli_exit cli_talk_add(cli_talk *t, cli_role role, const char *text, size_t n_bytes)
{
    char *json = NULL;
    size_t n_json = 0;
    cli_exit code = make_message(role, text, n_bytes, &json, &n_json);
    return code == CLI_DONE ? insert(t, t->n, role, json, n_json) : code;
}

cli_exit cli_talk_add_json(cli_talk *t, cli_role role, const char *json, size_t n_bytes)
{
    char *copy = malloc(n_bytes + 1);
    if (!copy) return cli_fail_memory("a message");
    memcpy(copy, json, n_bytes);
    copy[n_bytes] = 0;
    return insert(t, t->n, role, copy, n_bytes);
}

bool cli_talk_has_system(const cli_talk *t)
{
    return t->n && t->messages[0].role == CLI_ROLE_SYSTEM;
}

cli_exit cli_talk_set_system(cli_talk *t, const char *text)
{
    char *json = NULL;
    size_t n_json = 0;
    bool replace = cli_talk_has_system(t);
    if (*text) {
        cli_exit code = make_message(CLI_ROLE_SYSTEM, text, strlen(text), &json, &n_json);
        if (code == CLI_DONE) code = insert(t, 0, CLI_ROLE_SYSTEM, json, n_json);
        if (code != CLI_DONE) return code;
    }
    if (replace) forget(t, *text ? 1 : 0, *text ? 2 : 1);
    return CLI_DONE;
}

size_t cli_talk_turns(const cli_talk *t)
{
    size_t n = 0;
    for (size_t i = 0; i < t->n; i++)
        n += t->messages[i].role == CLI_ROLE_USER;
    return n;
}

void cli_talk_cut(cli_talk *t, size_t n)
{
    if (n < t->n) forget(t, n, t->n);
}

void cli_talk_drop_oldest(cli_talk *t, size_t n)
{
    size_t from = cli_talk_has_system(t), to = from;
    while (to < t->n && (n || t->messages[to].role != CLI_ROLE_USER)) {
        n -= n && t->messages[to].role == CLI_ROLE_USER;
        to++;
    }
    forget(t, from, to);
}

void cli_talk_free(cli_talk *t)
{
    cli_talk_cut(t, 0);
    free(t->messages);
    *t = (cli_talk){0};
}

/* ---- as JSON ---- */

static void put_list(const cli_talk *t, FILE *f, const char *between)
{
    for (size_t i = 0; i < t->n; i++)
        fprintf(f, "%s%s", i ? between : "", t->messages[i].json);
}

cli_exit cli_talk_request(const cli_talk *t, int thinking, char **request, size_t *n_bytes)
{
    FILE *f = open_memstream(request, n_bytes);
    if (!f) return cli_fail_memory("the request");
    fputs("{\"messages\": [", f);
    put_list(t, f, ", ");
    fputs("]", f);
    if (thinking >= 0) fprintf(f, ", \"enable_thinking\": %s", thinking ? "true" : "false");
    fputs(", \"add_generation_prompt\": true}", f);
    bool bad = ferror(f) != 0;
    if (fclose(f) == 0 && !bad) return CLI_DONE;
    free(*request);
    *request = NULL;
    return cli_fail_memory("the request");
}

/* A file that is missing, empty, or begins as what save writes. */
static bool is_replaceable(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f) return true; /* a file that only can't be read can't be written either, as a rule: that error is clearer */
    int c = fgetc(f);
    fclose(f);
    return c == EOF || c == '[';
}

cli_exit cli_talk_save(const cli_talk *t, const char *path)
{
    if (!is_replaceable(path)) {
        cli_error("%s: is there already and no saved conversation; it is left as it is", path);
        return CLI_FAILED;
    }
    FILE *f = fopen(path, "w");
    if (f) {
        fputs("[\n", f);
        put_list(t, f, ",\n");
        fputs("\n]\n", f);
        bool bad = ferror(f) != 0;
        if (fclose(f) == 0 && !bad) return CLI_DONE;
    }
    cli_error("%s: cannot be written: %s", path, strerror(errno));
    return CLI_FAILED;
}

static cli_role role_of(const cli_json_item *message)
{
    cli_json_item item;
    if (!cli_json_find(message->value, message->n_value, "role", &item)) return CLI_ROLE_OTHER;
    for (cli_role r = CLI_ROLE_SYSTEM; role_names[r]; r++) {
        size_t n = strlen(role_names[r]);
        if (item.n_value == n + 2 && memcmp(item.value + 1, role_names[r], n) == 0) return r;
    }
    return CLI_ROLE_OTHER;
}

/* Line breaks between a message's parts become blanks: save writes a message a line. */
static void join_lines(char *text, size_t n_bytes)
{
    for (size_t i = 0; i < n_bytes; i++) {
        if (text[i] == '\n' || text[i] == '\r') text[i] = ' ';
    }
}

static cli_exit take_messages(cli_talk *t, const char *path, char *text, size_t n_bytes)
{
    cli_json_walk w;
    cli_json_item item = {.value = text, .n_value = n_bytes};
    join_lines(text, n_bytes);
    cli_json_find(text, n_bytes, "messages", &item);
    if (!item.value || !cli_json_walk_begin(&w, item.value, item.n_value) || w.is_object) {
        cli_error("%s: holds no list of messages", path);
        return CLI_FAILED;
    }
    while (cli_json_walk_next(&w, &item)) {
        cli_exit code = cli_talk_add_json(t, role_of(&item), item.value, item.n_value);
        if (code != CLI_DONE) return code;
    }
    return CLI_DONE;
}

cli_exit cli_talk_load(cli_talk *t, const char *path)
{
    char *text = NULL;
    size_t n_bytes = 0;
    cli_exit code = cli_read_file(path, &text, &n_bytes);
    if (code != CLI_DONE) return code;
    code = take_messages(t, path, text, n_bytes);
    free(text);
    if (code != CLI_DONE) cli_talk_free(t);
    return code;
}
