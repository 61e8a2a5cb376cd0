/* Numbers within bounds, digit by digit: while the digits so far equal those of a bound, the next may not pass the bound's;
 * once one is well inside, the rest is free.  No exponent, at most 15 digits before and 15 behind the point. */
#include "text/schema_int.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_WHOLE = 15, MAX_FRACTION = 15 };

/* A bound in digits: whole (no zeros in front), then those behind the point (no zeros at the end). */
typedef struct {
    char whole[20], fraction[20];
    uint32_t n_whole, n_fraction;
    bool given, open;
} bound;

typedef struct {
    sl_gram_builder *b;
    bound low, high; /* of the magnitude */
    uint32_t n_fraction, multiple, to;
    uint32_t *made; /* states by whole_key */
    uint32_t fraction_made[MAX_FRACTION + 1][4];
} magnitude;

/* ---- bounds as text ---- */

void sl_gram_number_text(double v, char buf[32])
{
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(buf, 32, "%.*g", digits, v);
        if (strtod(buf, NULL) == v) break; /* both follow the same locale */
    }
    for (char *p = buf; *p; p++)
        if (!strchr("0123456789+-eE", *p)) *p = '.';
}

/* Fails when the value has more digits than a bound may have. */
static bool to_digits(sl_gram_builder *b, double v, bool open, bound *out)
{
    char text[64];
    *out = (bound){.given = true, .open = open};
    snprintf(text, sizeof text, "%.*f", MAX_FRACTION, v);
    if (v >= 1e15 || strtod(text, NULL) != v) {
        char shown[32];
        sl_gram_number_text(v, shown);
        sl_gb_fail(b, SL_ERR_UNSUPPORTED, "a bound of %s needs more than 15 digits before or behind the point", shown);
        return false;
    }
    size_t whole = strspn(text, "0123456789");
    memcpy(out->whole, text, whole);
    out->n_whole = (uint32_t)whole;
    memcpy(out->fraction, text + whole + 1, MAX_FRACTION);
    out->n_fraction = MAX_FRACTION;
    while (out->n_fraction && out->fraction[out->n_fraction - 1] == '0')
        out->n_fraction--;
    return true;
}

/* ---- one digit further ---- */

enum { ON_LOW = 1, ON_HIGH = 2 };

/* Which bounds are still followed after digit d where they have l and h; -1: d passes one of them. */
static int follow(int on, char d, char l, char h)
{
    int next = 0;
    if (on & ON_LOW) {
        if (d < l) return -1;
        if (d == l) next |= ON_LOW;
    }
    if (on & ON_HIGH) {
        if (d > h) return -1;
        if (d == h) next |= ON_HIGH;
    }
    return next;
}

static char fraction_digit(const bound *x, uint32_t k)
{
    return k < x->n_fraction ? x->fraction[k] : '0';
}

/* May the number end with k digits behind the point? */
static bool may_end(const magnitude *m, int on, uint32_t k)
{
    bool low_left = m->low.n_fraction > k, high_left = m->high.n_fraction > k;
    if (on & ON_LOW && (low_left || m->low.open)) return false;
    return !(on & ON_HIGH && !high_left && m->high.open);
}

/* The state with k digits behind the point. */
static uint32_t fraction_state(magnitude *m, uint32_t k, int on)
{
    uint32_t *made = &m->fraction_made[k][on];
    if (*made || m->b->rc != SL_OK) return *made;
    uint32_t state = *made = sl_gb_state(m->b);
    if (k && may_end(m, on, k)) sl_gb_empty(m->b, state, m->to);
    for (char d = '0'; d <= '9' && k < m->n_fraction; d++) {
        int next = follow(on, d, fraction_digit(&m->low, k), fraction_digit(&m->high, k));
        if (next >= 0) sl_gb_bytes(m->b, state, (uint8_t)d, (uint8_t)d, fraction_state(m, k + 1, next));
    }
    return state;
}

/* The state with left digits to come before the point; rest: the digits so far modulo multiple. */
static uint32_t whole_state(magnitude *m, uint32_t left, int on, uint32_t rest)
{
    uint32_t *made = &m->made[(left * 4 + (uint32_t)on) * m->multiple + rest];
    if (*made || m->b->rc != SL_OK) return *made;
    uint32_t state = *made = sl_gb_state(m->b);
    if (left == 0) {
        if (rest == 0 && may_end(m, on, 0)) sl_gb_empty(m->b, state, m->to);
        if (m->n_fraction) sl_gb_bytes(m->b, state, '.', '.', fraction_state(m, 0, on));
        return state;
    }
    for (char d = '0'; d <= '9'; d++) {
        char l = on & ON_LOW ? m->low.whole[m->low.n_whole - left] : '0', h = on & ON_HIGH ? m->high.whole[m->high.n_whole - left] : '9';
        int next = follow(on, d, l, h);
        if (next < 0) continue;
        uint32_t to = whole_state(m, left - 1, next, (rest * 10 + (uint32_t)(d - '0')) % m->multiple);
        sl_gb_bytes(m->b, state, (uint8_t)d, (uint8_t)d, to);
    }
    return state;
}

/* A first digit, for each number of digits that the bounds allow. */
static void draw_whole(magnitude *m, uint32_t from)
{
    uint32_t least = m->low.given ? m->low.n_whole : 1, most = m->high.given ? m->high.n_whole : MAX_WHOLE;
    for (uint32_t n = least; n <= most && m->b->rc == SL_OK; n++) {
        int on = (m->low.given && n == m->low.n_whole ? ON_LOW : 0) | (m->high.given && n == m->high.n_whole ? ON_HIGH : 0);
        for (char d = n == 1 ? '0' : '1'; d <= '9'; d++) {
            int next = follow(on, d, m->low.whole[0], m->high.whole[0]);
            if (next >= 0) sl_gb_bytes(m->b, from, (uint8_t)d, (uint8_t)d, whole_state(m, n - 1, next, (uint32_t)(d - '0') % m->multiple));
        }
    }
}

/* ---- both signs ---- */

typedef struct {
    bool has_low, has_high, low_open, high_open;
    double low, high;
} range;

/* low and high, 0 or above, of the magnitude. */
static void draw_magnitude(sl_gram_builder *b, const sl_number_range *r, const range *m_range, uint32_t from, uint32_t to)
{
    magnitude m = {.b = b, .n_fraction = r->integer ? 0 : r->n_fraction, .multiple = r->multiple, .to = to};
    if (m_range->has_low && !to_digits(b, m_range->low, m_range->low_open, &m.low)) return;
    if (m_range->has_high && !to_digits(b, m_range->high, m_range->high_open, &m.high)) return;
    m.made = sl_calloc((MAX_WHOLE + 1) * 4 * (size_t)r->multiple, sizeof *m.made);
    if (!m.made) sl_gb_fail(b, SL_ERR_NOMEM, "no memory for the bounds of a number");
    if (m.made) draw_whole(&m, from);
    sl_free(m.made);
}

/* Bounds of integers are made whole and closed; those beyond what is written anyway fall away. */
static sl_number_range simplify(const sl_number_range *r)
{
    sl_number_range x = *r;
    if (x.integer && x.has_low) {
        double v = ceil(x.low);
        x.low = x.low_open && v == x.low ? v + 1 : v;
        x.low_open = false;
    }
    if (x.integer && x.has_high) {
        double v = floor(x.high);
        x.high = x.high_open && v == x.high ? v - 1 : v;
        x.high_open = false;
    }
    if (x.has_low && x.low <= -1e15) x.has_low = false;
    if (x.has_high && x.high >= 1e15) x.has_high = false;
    return x;
}

void sl_gram_draw_number(sl_gram_builder *b, const sl_number_range *given, uint32_t from, uint32_t to)
{
    sl_number_range r = simplify(given);
    if (r.has_low && r.has_high && (r.low > r.high || (r.low == r.high && (r.low_open || r.high_open)))) return; /* no number */
    if (!r.has_high || r.high > 0 || (r.high == 0 && !r.high_open)) {
        bool low = r.has_low && r.low > 0;
        range up = {.has_low = low || (r.has_low && r.low == 0 && r.low_open), .low = low ? r.low : 0, .low_open = r.low_open,
                    .has_high = r.has_high, .high = r.high, .high_open = r.high_open};
        draw_magnitude(b, &r, &up, from, to);
    }
    if (!r.has_low || r.low < 0) {
        bool below = r.has_high && r.high < 0; /* else down to, but without, minus zero */
        range down = {.has_low = true, .low = below ? -r.high : 0, .low_open = below ? r.high_open : true,
                      .has_high = r.has_low, .high = r.has_low ? -r.low : 0, .high_open = r.low_open};
        uint32_t minus = sl_gb_literal(b, from, "-", 1);
        draw_magnitude(b, &r, &down, minus, to);
    }
}
