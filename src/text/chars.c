/* What a character is, from utf8proc's tables (Unicode 15). */
#include "text/text_int.h"

#include <utf8proc.h>

bool sl_char_is_space(uint32_t cp)
{
    if (cp < 0x85) return cp == ' ' || (cp >= 9 && cp <= 13);
    return cp == 0x85 || cp == 0xA0 || cp == 0x1680 || (cp >= 0x2000 && cp <= 0x200A) || cp == 0x2028 || cp == 0x2029 ||
           cp == 0x202F || cp == 0x205F || cp == 0x3000;
}

static unsigned category_bit(uint32_t cp)
{
    return 1u << (unsigned)utf8proc_category((utf8proc_int32_t)cp);
}

bool sl_char_is_word(uint32_t cp)
{
    const unsigned word = 1u << UTF8PROC_CATEGORY_LU | 1u << UTF8PROC_CATEGORY_LL | 1u << UTF8PROC_CATEGORY_LT |
                          1u << UTF8PROC_CATEGORY_LM | 1u << UTF8PROC_CATEGORY_LO | 1u << UTF8PROC_CATEGORY_MN |
                          1u << UTF8PROC_CATEGORY_MC | 1u << UTF8PROC_CATEGORY_ME | 1u << UTF8PROC_CATEGORY_ND |
                          1u << UTF8PROC_CATEGORY_NL | 1u << UTF8PROC_CATEGORY_NO | 1u << UTF8PROC_CATEGORY_PC;
    return category_bit(cp) & word;
}

bool sl_char_is_digit(uint32_t cp)
{
    return cp < 0x80 ? cp - '0' < 10 : category_bit(cp) == 1u << UTF8PROC_CATEGORY_ND;
}

bool sl_char_is_number(uint32_t cp)
{
    const unsigned number = 1u << UTF8PROC_CATEGORY_ND | 1u << UTF8PROC_CATEGORY_NL | 1u << UTF8PROC_CATEGORY_NO;
    return category_bit(cp) & number;
}

size_t sl_char_before(const char *s, size_t end, uint32_t *cp)
{
    for (size_t len = 1; len <= 4 && len <= end; len++) {
        if (((uint8_t)s[end - len] & 0xC0) == 0x80) continue;
        return sl_utf8_decode(s + end - len, len, cp) == len ? len : 0;
    }
    return 0;
}

const char *sl_text_show(const char *s, size_t n, char buf[64])
{
    size_t out = 0;
    for (size_t i = 0; i < n && out < 60; i++)
        buf[out++] = (uint8_t)s[i] < 0x20 || s[i] == 0x7F ? '?' : s[i];
    buf[out] = 0;
    return buf;
}
