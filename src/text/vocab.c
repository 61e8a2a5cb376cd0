/* The vocabulary: token texts in one block, a byte of attributes per token, and a hash table from text to id.  Filled
 * once, in the order of ids, in memory that was sized before; read-only afterwards.
 *
 * Not here: which pairs merge (merges.c), and how added tokens are found in a text (special.c). */
#include "text/text_int.h"

#include <string.h>

enum {
    ID_BITS = 22,
    MAX_PROBES = 4096, /* a table of honest strings needs a few dozen; more means strings made to collide */
};
#define FREE_SLOT   UINT32_MAX
#define ID_MASK     ((1u << ID_BITS) - 1)
#define NOT_OF_FORM SIZE_MAX

/* ---- forms ---- */

/* GPT-2 shows the 68 bytes that are not printable as U+0100 upwards, in increasing order, the others as themselves. */
static int undisguise(uint32_t cp)
{
    if ((cp >= 0x21 && cp <= 0x7E) || (cp >= 0xA1 && cp <= 0xFF && cp != 0xAD)) return (int)cp;
    if (cp < 0x100 || cp >= 0x100 + 68) return -1;
    int k = (int)(cp - 0x100);
    return k < 33 ? k : k < 67 ? k - 33 + 0x7F : 0xAD;
}

/* Each writer returns the bytes written to dst (never more than n), or NOT_OF_FORM. */
static size_t write_bytes(char *dst, const char *text, size_t n)
{
    size_t out = 0;
    for (size_t i = 0; i < n;) {
        uint32_t cp;
        size_t len = sl_utf8_decode(text + i, n - i, &cp);
        int b = len ? undisguise(cp) : -1;
        if (b < 0) return NOT_OF_FORM;
        dst[out++] = (char)b;
        i += len;
    }
    return out;
}

static size_t write_spaced(char *dst, const char *text, size_t n, bool allow_space)
{
    size_t out = 0;
    for (size_t i = 0; i < n; i++) {
        if (text[i] == ' ' && !allow_space) return NOT_OF_FORM;
        bool line = n - i >= 3 && memcmp(text + i, SL_LOW_LINE, 3) == 0;
        dst[out++] = line ? ' ' : text[i];
        if (line) i += 2;
    }
    return out;
}

static size_t write_plain(char *dst, const char *text, size_t n)
{
    if (n) memcpy(dst, text, n);
    return n;
}

static size_t write_form(sl_text_form form, char *dst, const char *text, size_t n)
{
    switch (form) {
    case SL_FORM_BYTES:
        return write_bytes(dst, text, n);
    case SL_FORM_SPACED:
        return write_spaced(dst, text, n, false);
    default:
        return write_plain(dst, text, n);
    }
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    char l = (char)(c | 32);
    return l >= 'a' && l <= 'f' ? l - 'a' + 10 : -1;
}

int sl_byte_token_value(const char *text, size_t n_bytes)
{
    if (n_bytes != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>') return -1;
    int hi = hex_digit(text[3]), lo = hex_digit(text[4]);
    return hi < 0 || lo < 0 ? -1 : hi * 16 + lo;
}

/* ---- life ---- */

sl_status sl_vocab_open(sl_vocab *v, sl_text_form form, uint32_t n, uint32_t n_usable, size_t text_bytes, sl_err *err)
{
    *v =
        (sl_vocab){.form = form, .cap = n, .n_usable = n_usable && n_usable < n ? n_usable : n, .text_cap = text_bytes};
    memset(v->byte_id, 0xFF, sizeof v->byte_id);
    uint32_t n_slot = 16;
    while (n_slot / 4 * 3 < n)
        n_slot *= 2;
    v->slot_mask = n_slot - 1;
    v->text = sl_malloc(text_bytes);
    v->off = sl_malloc(((size_t)n + 1) * sizeof *v->off);
    v->attr = sl_malloc(n);
    v->slots = sl_malloc((size_t)n_slot * sizeof *v->slots);
    v->joints = form == SL_FORM_BYTES ? NULL : sl_calloc(256 * 256 / 8, 1);
    if (!v->text || !v->off || !v->attr || !v->slots || (form != SL_FORM_BYTES && !v->joints))
        return sl_fail(err, SL_ERR_NOMEM, "no memory for a vocabulary of %u tokens with %zu bytes of text", n,
                       text_bytes);
    v->off[0] = 0;
    memset(v->slots, 0xFF, (size_t)n_slot * sizeof *v->slots);
    return SL_OK;
}

void sl_vocab_close(sl_vocab *v)
{
    sl_free(v->text);
    sl_free(v->off);
    sl_free(v->attr);
    sl_free(v->slots);
    sl_free(v->joints);
    *v = (sl_vocab){0};
}

uint64_t sl_vocab_bytes(const sl_vocab *v)
{
    return v->text_cap + ((uint64_t)v->cap + 1) * sizeof *v->off + v->cap +
           ((uint64_t)v->slot_mask + 1) * sizeof *v->slots + (v->joints ? 256 * 256 / 8 : 0);
}

/* ---- hash table ---- */

/* The slot that holds these bytes, or the free one where the search ended; NULL after too many probes. */
static uint32_t *find_slot(const sl_vocab *v, const char *bytes, size_t n, uint32_t *tag)
{
    uint64_t h = sl_hash_bytes(bytes, n);
    *tag = (uint32_t)(h >> 54);
    for (uint32_t i = 0; i < MAX_PROBES; i++) {
        uint32_t *slot = &v->slots[((uint32_t)h + i) & v->slot_mask];
        if (*slot == FREE_SLOT) return slot;
        if (*slot >> ID_BITS != *tag) continue;
        uint32_t id = *slot & ID_MASK;
        if (v->off[id + 1] - v->off[id] == n && memcmp(v->text + v->off[id], bytes, n) == 0) return slot;
    }
    return NULL;
}

static void note_joints(sl_vocab *v, const char *text, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        if (((uint8_t)text[i] & 0xC0) == 0x80) continue;
        unsigned k = (unsigned)(uint8_t)text[i - 1] << 8 | (uint8_t)text[i];
        v->joints[k >> 3] |= (uint8_t)(1u << (k & 7));
    }
}

/* Enters token id, whose text is in place.  Of two tokens with one text the first is found. */
static sl_status enter(sl_vocab *v, uint32_t id, sl_err *err)
{
    size_t n;
    const char *text = sl_vocab_text(v, id, &n);
    if (n == 0 || id >= v->n_usable) return SL_OK;
    uint32_t tag, *slot = find_slot(v, text, n, &tag);
    if (!slot) return sl_fail(err, SL_ERR_FORMAT, "more than %d tokens have the same hash: token %u", MAX_PROBES, id);
    if (*slot == FREE_SLOT) *slot = tag << ID_BITS | id;
    if (v->joints) note_joints(v, text, n);
    return SL_OK;
}

int32_t sl_vocab_find(const sl_vocab *v, const char *bytes, size_t n_bytes)
{
    uint32_t tag;
    if (n_bytes == 0 || n_bytes > v->max_token_bytes) return -1;
    const uint32_t *slot = find_slot(v, bytes, n_bytes, &tag);
    return slot && *slot != FREE_SLOT ? (int32_t)(*slot & ID_MASK) : -1;
}

int32_t sl_vocab_find_raw(const sl_vocab *v, const char *text, size_t n_bytes, char *buf)
{
    if (n_bytes > SL_TOK_MAX_TOKEN_BYTES) return -1;
    size_t n = write_form(v->form, buf, text, n_bytes);
    return n == NOT_OF_FORM ? -1 : sl_vocab_find(v, buf, n);
}

int32_t sl_vocab_find_any(const sl_vocab *v, const char *text, size_t n_bytes)
{
    int32_t found = -1;
    for (uint32_t id = 0; id < v->n_usable; id++) {
        size_t n;
        const char *p = sl_vocab_text(v, id, &n);
        if (n != n_bytes || memcmp(p, text, n) != 0) continue;
        unsigned type = sl_vocab_type(v, id);
        if (type == SL_TOK_CONTROL || type == SL_TOK_USER || type == SL_TOK_UNKNOWN) return (int32_t)id;
        if (found < 0) found = (int32_t)id;
    }
    return found;
}

/* ---- filling ---- */

/* Writes the stored form of a token to dst.  *mergeable: it belongs into the hash table.  A user-defined token does
 * where its text means the same both ways: Gemma's runs of U+2581 are added tokens and results of merges too. */
static size_t store_text(const sl_vocab *v, unsigned type, char *dst, const char *text, size_t n, bool *mergeable)
{
    *mergeable = false;
    if (type != SL_TOK_NORMAL && type != SL_TOK_UNDEFINED && type != SL_TOK_USER) return write_plain(dst, text, n);
    size_t out = write_form(v->form, dst, text, n);
    bool same = out != NOT_OF_FORM;
    if (same && type == SL_TOK_USER && v->form == SL_FORM_BYTES) same = out == n && memcmp(dst, text, n) == 0;
    *mergeable = same;
    if (same) return out;
    return type == SL_TOK_USER && v->form == SL_FORM_SPACED ? write_spaced(dst, text, n, true)
                                                            : write_plain(dst, text, n);
}

static sl_status add_byte_token(sl_vocab *v, char *dst, const char *text, size_t n, sl_err *err)
{
    int b = sl_byte_token_value(text, n);
    if (b < 0)
        return sl_fail(err, SL_ERR_FORMAT, "token %u is of type byte but is called '%.*s', not <0x00> to <0xFF>", v->n,
                       (int)(n < 40 ? n : 40), text);
    *dst = (char)b;
    if (v->byte_id[b] < 0 && v->n < v->n_usable) v->byte_id[b] = (int32_t)v->n;
    return SL_OK;
}

sl_status sl_vocab_add(sl_vocab *v, unsigned attr, const char *text, size_t n_bytes, sl_err *err)
{
    uint32_t id = v->n, at = v->off[id];
    if (n_bytes > SL_TOK_MAX_TOKEN_BYTES)
        return sl_fail(err, SL_ERR_FORMAT, "token %u has %zu bytes, the limit is %d", id, n_bytes,
                       SL_TOK_MAX_TOKEN_BYTES);
    if (id >= v->cap || n_bytes > v->text_cap - at)
        return sl_fail(err, SL_ERR_FORMAT, "token %u does not fit the vocabulary that was announced", id);
    bool mergeable = false;
    size_t len = 1;
    if ((attr & SL_ATTR_TYPE) == SL_TOK_BYTE) {
        sl_status rc = add_byte_token(v, v->text + at, text, n_bytes, err);
        if (rc != SL_OK) return rc;
    } else {
        len = store_text(v, attr & SL_ATTR_TYPE, v->text + at, text, n_bytes, &mergeable);
    }
    v->off[id + 1] = at + (uint32_t)len;
    v->attr[id] = (uint8_t)attr;
    v->n = id + 1;
    if (len > v->max_token_bytes) v->max_token_bytes = (uint32_t)len;
    return mergeable ? enter(v, id, err) : SL_OK;
}

void sl_vocab_seal(sl_vocab *v)
{
    size_t used = v->off[v->n];
    char *text = sl_realloc(v->text, used);
    if (text) {
        v->text = text;
        v->text_cap = used;
    }
    if (v->form != SL_FORM_BYTES) return;
    for (int b = 0; b < 256; b++) {
        char c = (char)b;
        v->byte_id[b] = sl_vocab_find(v, &c, 1);
    }
}
