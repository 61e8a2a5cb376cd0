/* Text out: content and reasoning, each growing by what is reported.  White space at the end of what came so far waits,
 * because it belongs to a marker if one follows: models and templates put newlines around markers as they please.  When
 * text follows instead, it is text; it is dropped only
 *   before the first text of a channel, once a marker was seen
 *   at the end of reasoning, and between two parts of it (where a newline stands for it)
 *   between the last text and a marker that is followed by no more text. */
#include "text/reply_int.h"

void sl_reply_die(sl_reply *r, sl_status code, const char *why)
{
    if (r->status != SL_OK) return;
    r->status = code;
    r->why = why;
}

bool sl_reply_check(sl_reply *r, const sl_buf *b)
{
    if (b->failed) sl_reply_die(r, SL_ERR_NOMEM, "no memory for the text of a reply");
    return r->status == SL_OK;
}

void sl_reply_flush(sl_reply *r)
{
    for (unsigned c = 0; c < SL_N_CHANNEL; c++) {
        sl_reply_channel *ch = &r->ch[c];
        sl_reply_event e = {.kind = c == SL_CONTENT ? SL_REPLY_CONTENT : SL_REPLY_REASONING};
        if (ch->n_sent == ch->text.len) continue;
        e.text = ch->text.data + ch->n_sent;
        e.n_bytes = ch->text.len - ch->n_sent;
        ch->n_sent = ch->text.len;
        if (r->each) r->each(r->user, &e);
    }
}

/* Text of one channel waits for the end of the piece that is being parsed, so that a piece makes one event. */
static void report(sl_reply *r, unsigned channel, const char *text, size_t n)
{
    sl_reply_channel *ch = &r->ch[channel], *other = &r->ch[!channel];
    if (n == 0) return;
    if (other->n_sent < other->text.len) sl_reply_flush(r);
    sl_buf_add(&ch->text, text, n);
    sl_reply_check(r, &ch->text);
}

/* Text follows the white space that waits: is it text too? */
static void report_space(sl_reply *r, unsigned channel)
{
    sl_reply_channel *ch = &r->ch[channel];
    bool keep = ch->text.len ? !ch->joint || channel == SL_CONTENT : !r->seen_marker;
    if (keep) report(r, channel, ch->space.data, ch->space.len);
    if (ch->joint && (!keep || !ch->space.len)) report(r, channel, "\n", 1);
    ch->space.len = 0;
    ch->joint = ch->after_marker = false;
}

void sl_reply_say(sl_reply *r, const char *text, size_t n)
{
    sl_reply_channel *ch = &r->ch[r->channel];
    size_t lead = 0, end = n;
    if (!r->n_mark && !r->at_start) {
        report(r, r->channel, text, n);
        return;
    }
    while (end && sl_reply_is_space(text[end - 1]))
        end--;
    while (lead < end && sl_reply_is_space(text[lead]))
        lead++;
    if (end) {
        sl_buf_add(&ch->space, text, lead);
        if (!sl_reply_check(r, &ch->space)) return;
        report_space(r, r->channel);
        report(r, r->channel, text + lead, end - lead);
    }
    sl_buf_add(&ch->space, text + end, n - end);
    sl_reply_check(r, &ch->space);
}

void sl_reply_turn(sl_reply *r, unsigned channel, bool part)
{
    sl_reply_channel *from = &r->ch[r->channel], *to = &r->ch[channel];
    r->seen_marker = from->after_marker = to->after_marker = true;
    if (r->channel == SL_REASONING) from->space.len = 0;
    if (part) to->joint = to->text.len > 0;
    r->channel = channel;
}

void sl_reply_settle(sl_reply *r)
{
    for (unsigned c = 0; c < SL_N_CHANNEL; c++) {
        sl_reply_channel *ch = &r->ch[c];
        if (!ch->after_marker) report(r, c, ch->space.data, ch->space.len);
        ch->space.len = 0;
    }
}
