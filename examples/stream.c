/* Streams a model from disk under a memory limit and prints what it writes:  stream MODEL PROMPT [MIB]
 *
 *   cc stream.c $(pkg-config --cflags --libs sluice) -o stream */
#include <sluice.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static sl_status write_text(sl_engine *engine, sl_session *session, sl_sampler *sampler, const char *prompt,
                            sl_err *err)
{
    sl_tokenizer *t = sl_engine_tokenizer(engine);
    int32_t ids[512];
    size_t n, n_bytes;
    if (sl_tokenize(t, prompt, strlen(prompt), SL_ENCODE_BOS, ids, 512, &n, err)) return err->code;
    while (n <= sl_session_room_tok(session)) {
        if (sl_session_feed(session, ids, n, err)) return err->code;
        if (sl_sample(sampler, sl_session_logits(session), &ids[0], err)) return err->code;
        if (sl_tokenizer_is_end(t, ids[0])) break;
        const char *piece = sl_token_bytes(t, ids[0], false, &n_bytes);
        fwrite(piece, 1, n_bytes, stdout);
        n = 1;
    }
    return SL_OK;
}

int main(int argc, char **argv)
{
    sl_err err = {0};
    sl_engine *engine = NULL;
    sl_session *session = NULL;
    sl_sampler *sampler = NULL;
    sl_model_info info;
    sl_engine_options options;
    sl_sampler_options greedy;
    if (argc < 3) return 2;
    sl_engine_options_init(&options);
    options.ctx_tok = 64;
    options.memory_bytes = argc > 3 ? strtoull(argv[3], NULL, 10) << 20 : 0; /* 0: what the machine can spare */
    sl_sampler_options_init(&greedy);
    greedy.temp = 0;
    if (sl_engine_open(&engine, argv[1], &options, &err)) return fprintf(stderr, "%s\n", err.msg), 1;
    sl_engine_info(engine, &info);
    if (!sl_session_open(&session, engine, &err) && !sl_sampler_open(&sampler, info.n_vocab, &greedy, &err))
        write_text(engine, session, sampler, argv[2], &err);
    if (err.code) fprintf(stderr, "%s\n", err.msg);
    sl_sampler_close(sampler);
    sl_session_close(session);
    sl_engine_close(engine);
    return err.code != SL_OK;
}
