/* How text is cut into pieces, by the name that a GGUF file gives (tokenizer.ggml.pre).  Patterns are facts of the
 * models' own tokenizers, in their dialect (regex_dialect.c); the ones of a list are applied one after another, each to
 * what the one before left.  Three look at digits from the right, for which a pattern is quadratic: they are steps of
 * the splitter instead.
 *
 * Where the original and llama.cpp differ (letter case beyond ASCII in O200K and TEKKEN, possessive quantifiers, NFC
 * for Qwen) the original is followed.  NFC is applied for names that stand for one family whose tokenizer.json asks for
 * it. */
#include "text/text_int.h"

#include <string.h>

#define C     "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
/* The same without Han: what is left of all categories when the others are taken away. */
#define UPPER_NO_HAN "[^\\p{Ll}\\p{N}\\p{P}\\p{S}\\p{Z}\\p{C}\\p{Han}]"
#define LOWER_NO_HAN "[^\\p{Lu}\\p{Lt}\\p{N}\\p{P}\\p{S}\\p{Z}\\p{C}\\p{Han}]"
#define HEAD         "[^\\r\\n\\p{L}\\p{N}]?"
#define BLANKS       "|\\s+(?!\\S)|\\s+"
#define LINES        "|\\s*[\\r\\n]+" BLANKS
#define SIGNS        "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"
#define SIGNS_SLASH  "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*"

#define GPT2   "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+" BLANKS
#define LLAMA3 C "|" HEAD "\\p{L}+|\\p{N}{1,3}" SIGNS LINES
#define QWEN2  C "|" HEAD "\\p{L}+|\\p{N}" SIGNS LINES
#define QWEN35 C "|" HEAD "[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*" LINES
#define O200K  HEAD UPPER "*" LOWER "+" C "?|" HEAD UPPER "+" LOWER "*" C "?|\\p{N}{1,3}" SIGNS_SLASH LINES
#define TEKKEN HEAD UPPER "*" LOWER "+|" HEAD UPPER "+" LOWER "*|\\p{N}" SIGNS_SLASH LINES
#define YOUTU  HEAD UPPER "*" LOWER "+" C "?|" HEAD UPPER "+" LOWER "*" C "?|\\p{N}" SIGNS_SLASH LINES
#define KIMI                                                                                                           \
    "[\\p{Han}]+|" HEAD UPPER_NO_HAN "*" LOWER_NO_HAN "+" C "?|" HEAD UPPER_NO_HAN "+" LOWER_NO_HAN "*" C              \
    "?|\\p{N}{1,3}" SIGNS LINES
#define ASCII_SIGN_WORD "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+"
#define MARKED_WORD     "[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
#define DSV3_MAIN       ASCII_SIGN_WORD "|" MARKED_WORD "| ?[\\p{P}\\p{S}]+[\\r\\n]*" LINES
#define CJK             "[\\x{4E00}-\\x{9FA5}\\x{800}-\\x{4E00}\\x{AC00}-\\x{D7FF}]+"
#define BLOOM           " ?[^(\\s|.,!?\\x{2026}\\x{3002}\\x{FF0C}\\x{3001}\\x{964}\\x{6D4}\\x{60C})]+"

const char sl_pattern_gpt2[] = GPT2;

#define LIST(name, ...) static const char *const name[] = {__VA_ARGS__, NULL}
LIST(gpt2, GPT2);
LIST(llama3, LLAMA3);
LIST(qwen2, QWEN2);
LIST(qwen35, QWEN35);
LIST(o200k, O200K);
LIST(tekken, TEKKEN);
LIST(dsv3, "\\p{N}{1,3}", "[\\x{4E00}-\\x{9FA5}\\x{3040}-\\x{309F}\\x{30A0}-\\x{30FF}]+", DSV3_MAIN);
LIST(spark, "\\p{N}{1,3}", "[\\x{4E00}-\\x{9FA5}\\x{3040}-\\x{309F}\\x{30A0}-\\x{30FF}]+",
     ASCII_SIGN_WORD "|" MARKED_WORD "| ?[\\p{P}\\p{S}]+|[\\r\\n]" BLANKS, "\\p{N}");
/* clang-format off */
LIST(dsllm, "[\\r\\n]",
     "\\s?["
     "A-Za-z\\x{B5}\\x{C0}-\\x{D6}\\x{D8}-\\x{F6}\\x{F8}-\\x{1BA}\\x{1BC}-\\x{1BF}\\x{1C4}-\\x{293}"
     "\\x{295}-\\x{2AF}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37B}-\\x{37D}\\x{37F}\\x{386}"
     "\\x{388}-\\x{38A}\\x{38C}\\x{38E}-\\x{3A1}\\x{3A3}-\\x{3F5}\\x{3F7}-\\x{481}\\x{48A}-\\x{52F}"
     "\\x{531}-\\x{556}\\x{10A0}-\\x{10C5}\\x{13A0}-\\x{13F5}\\x{13F8}-\\x{13FD}\\x{1C90}-\\x{1CBA}"
     "\\x{1CBD}-\\x{1CBF}\\x{1D00}-\\x{1D2B}\\x{1D6B}-\\x{1D77}\\x{1D79}-\\x{1D9A}\\x{1E00}-\\x{1F15}"
     "\\x{1F18}-\\x{1F1D}\\x{1F20}-\\x{1F45}\\x{1F48}-\\x{1F4D}\\x{1F50}-\\x{1F57}\\x{1F59}\\x{1F5B}"
     "\\x{1F5D}\\x{1F5F}-\\x{1F7D}\\x{1F80}-\\x{1FB4}\\x{1FB6}-\\x{1FBC}\\x{1FBE}\\x{1FC2}-\\x{1FC4}"
     "\\x{1FC6}-\\x{1FCC}\\x{1FD0}-\\x{1FD3}\\x{1FD6}-\\x{1FDB}\\x{1FE0}-\\x{1FEC}\\x{1FF2}-\\x{1FF4}"
     "\\x{1FF6}-\\x{1FFC}\\x{2102}\\x{2107}\\x{210A}-\\x{2113}\\x{2115}\\x{2119}-\\x{211D}\\x{2124}"
     "\\x{2126}\\x{2128}\\x{212A}-\\x{212D}\\x{212F}-\\x{2134}\\x{2139}\\x{213C}-\\x{213F}"
     "\\x{2145}-\\x{2149}\\x{214E}\\x{2183}\\x{2184}\\x{2C00}-\\x{2C7B}\\x{2C7E}-\\x{2CE4}"
     "\\x{2CEB}-\\x{2CEE}\\x{2CF2}\\x{2CF3}\\x{A640}-\\x{A66D}\\x{A680}-\\x{A69B}\\x{A722}-\\x{A76F}"
     "\\x{A771}-\\x{A787}\\x{A78B}-\\x{A78E}\\x{AB70}-\\x{ABBF}\\x{FB00}-\\x{FB06}\\x{FB13}-\\x{FB17}"
     "\\x{FF21}-\\x{FF3A}\\x{FF41}-\\x{FF5A}\\x{10400}-\\x{1044F}\\x{104B0}-\\x{104D3}"
     "\\x{104D8}-\\x{104FB}\\x{10C80}-\\x{10CB2}\\x{10CC0}-\\x{10CF2}\\x{118A0}-\\x{118DF}"
     "\\x{1E900}-\\x{1E943}]+",
     "\\s?[!-/:-~\\x{FF01}-\\x{FF0F}\\x{FF1A}-\\x{FF5E}\\x{2018}-\\x{201F}\\x{3000}-\\x{3002}]+", "\\s+$", CJK, "\\p{N}+");
/* clang-format on */
LIST(dscode, "[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", CJK, "\\p{N}");
LIST(digit1, "\\p{N}", GPT2);
LIST(falcon, "[\\p{P}\\$\\+<=>\\^~\\|`]+", GPT2, "[0-9][0-9][0-9]");
LIST(bloom, BLOOM);
LIST(viking, BLOOM, "\\p{N}");
LIST(bailing,
     "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]" BLANKS);
LIST(seed, C "|" HEAD "\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}\\r\\n]+" LINES);
LIST(kimi, KIMI);
LIST(super, "\\p{N}+", "\1\0");
LIST(aya, "\1\1", O200K);
/* The original's (?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+ without its nested repetitions. */
LIST(exaone_moe, C "|" HEAD "\\p{L}[\\p{L}\\p{M}]*+(?: \\p{L}[\\p{L}\\p{M}]*+)*+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]?"
                   "|\\s*[\\r\\n]" BLANKS);
LIST(afmoe, "\1\2",
     "[\\x{4E00}-\\x{9FFF}\\x{3400}-\\x{4DBF}\\x{F900}-\\x{FAFF}\\x{3040}-\\x{309F}\\x{30A0}-\\x{30FF}\\x{FF65}-\\x{"
     "FF9F}\\x{2F00}-\\x{2FDF}\\x{E40}-\\x{E7F}\\x{E80}-\\x{EFF}\\x{1780}-\\x{17FF}\\x{1000}-\\x{109F}\\x{AA60}-\\x{"
     "AA7F}\\x{A9E0}-\\x{A9FF}\\x{AC00}-\\x{D7AF}\\x{1100}-\\x{11FF}]+",
     DSV3_MAIN);
LIST(jais2, C "|" HEAD "\\p{L}+|\\p{N}{1,3}" SIGNS "|\\s*[\\r\\n]+|\\s{512}(?!\\S)|\\s{256}(?!\\S)|\\s{128}(?!\\S)"
              "|\\s{64}(?!\\S)|\\s{32}(?!\\S)|\\s{16}(?!\\S)|\\s{8}(?!\\S)|\\s{4}(?!\\S)|\\s{1,2}(?!\\S)|\\s");
LIST(minicpm5, "\\p{N}{1,3}", C "|" HEAD "\\p{L}+|\\p{N}+" SIGNS LINES);
LIST(laguna, "[^\\n]+|[\\n]+", QWEN2);
LIST(youtu,
     "[\\x{AC00}-\\x{D7A3}\\x{3131}-\\x{318E}]+|[\\x{FF01}\\x{2026}\\x{201C}\\x{201D}\\x{2018}\\x{2019}\\x{2014}\\x{"
     "FF1A}\\x{FF1B}\\x{FF0C}\\x{3001}-\\x{303F}\\x{FE30}-\\x{FE4F}]+|[\\x{3105}-\\x{312F}]+|[\\x{4E00}-\\x{9FA5}\\x{"
     "3040}-\\x{309F}\\x{30A0}-\\x{30FF}]+",
     YOUTU);
LIST(ufakzeka, HEAD "\\p{L}+|\\p{N}" SIGNS LINES);
LIST(chameleon, "<sentinel:[0-9]+>", "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z", "([\\t\\n]|    |  )", "\\p{N}",
     "[\\p{P}!-/:-@\\[-`{-~]", GPT2);
LIST(fallback, "[\\p{P}\\$\\+<=>\\^~\\|]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]");

const sl_pre sl_pre_default = {"default", fallback, 0};

#define WHOLE SL_PRE_IGNORE_MERGES
#define BOS   SL_PRE_ADD_BOS
static const sl_pre table[] = {
    {"default", fallback, 0},
    /* llama 3 */
    {"llama3", llama3, WHOLE | BOS},
    {"llama-v3", llama3, WHOLE | BOS},
    {"llama-bpe", llama3, WHOLE | BOS},
    {"falcon3", llama3, WHOLE | BOS},
    {"falcon-h1", llama3, WHOLE | BOS},
    {"pixtral", llama3, WHOLE | BOS},
    {"midm-2.0", llama3, WHOLE | BOS},
    {"lfm2", llama3, WHOLE | BOS},
    {"jina-v5-nano", llama3, WHOLE | BOS},
    {"dbrx", llama3, 0},
    {"smaug-bpe", llama3, 0},
    {"glm4", llama3, 0},
    {"chatglm-bpe", llama3, 0},
    {"jais-2", jais2, 0},
    {"minicpm5", minicpm5, WHOLE},
    /* qwen */
    {"qwen2", qwen2, SL_PRE_NFC},
    {"qwen35", qwen35, SL_PRE_NFC},
    {"deepseek-r1-qwen", qwen2, 0},
    {"megrez", qwen2, 0},
    {"stablelm2", qwen2, 0},
    {"hunyuan", qwen2, 0},
    {"solar-open", qwen2, 0},
    {"kormo", qwen2, 0},
    {"f2llmv2", qwen2, 0},
    {"grok-2", qwen2, 0},
    {"laguna", laguna, 0},
    {"ufakzeka", ufakzeka, 0},
    /* o200k and its kin */
    {"gpt-4o", o200k, 0},
    {"llama4", o200k, 0},
    {"kanana2", o200k, 0},
    {"talkie", o200k, 0},
    {"minimax-m2", o200k, 0},
    {"tekken", tekken, WHOLE | BOS},
    {"kimi-k2", kimi, 0},
    {"tiny_aya", aya, 0},
    {"cohere2moe", aya, 0},
    {"youtu", youtu, WHOLE},
    /* deepseek */
    {"deepseek-v3", dsv3, 0},
    {"hunyuan-dense", dsv3, 0},
    {"joyai-llm", dsv3, 0},
    {"hy_v4", dsv3, 0},
    {"spark2_5", spark, 0},
    {"deepseek-llm", dsllm, 0},
    {"deepseek-coder", dscode, 0},
    {"afmoe", afmoe, 0},
    /* single digits, then gpt-2 */
    {"smollm", digit1, 0},
    {"starcoder", digit1, 0},
    {"refact", digit1, 0},
    {"command-r", digit1, SL_PRE_NFC},
    {"codeshell", digit1, 0},
    {"exaone", digit1, 0},
    {"minerva-7b", digit1, 0},
    {"mellum2", digit1, 0},
    /* gpt-2 */
    {"gpt-2", gpt2, 0},
    {"phi-2", gpt2, 0},
    {"mpt", gpt2, 0},
    {"olmo", gpt2, SL_PRE_NFC},
    {"jais", gpt2, 0},
    {"trillion", gpt2, 0},
    {"granite-docling", gpt2, 0},
    {"exaone4", gpt2, 0},
    {"gigachat", gpt2, 0},
    {"a.x-4.0", gpt2, 0},
    {"mellum", gpt2, 0},
    {"modern-bert", gpt2, 0},
    {"roberta-bpe", gpt2, 0},
    {"jina-es", gpt2, 0},
    {"jina-de", gpt2, 0},
    {"jina-v1-en", gpt2, 0},
    {"jina-v2-es", gpt2, 0},
    {"jina-v2-de", gpt2, 0},
    {"jina-v2-code", gpt2, 0},
    /* their own */
    {"bailingmoe", bailing, 0},
    {"bailingmoe2", bailing, 0},
    {"llada-moe", bailing, 0},
    {"falcon", falcon, 0},
    {"bloom", bloom, 0},
    {"gpt3-finnish", bloom, 0},
    {"poro-chat", bloom, 0},
    {"viking", viking, 0},
    {"seed-coder", seed, 0},
    {"superbpe", super, 0},
    {"exaone-moe", exaone_moe, 0},
    {"chameleon", chameleon, BOS},
};

const sl_pre *sl_pre_find(const char *name, size_t n_bytes)
{
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (strlen(table[i].name) == n_bytes && memcmp(table[i].name, name, n_bytes) == 0) return &table[i];
    return NULL;
}
