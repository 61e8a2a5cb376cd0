#!/usr/bin/env python3
"""Makes tests/fixtures/text/lines.txt, 2,000 short texts of many scripts and shapes, and the ids that they must give.

    tools/make_lines.py                     writes lines.txt and edge.txt only (no dependencies)
    tools/make_lines.py PEER MODELS         also the ids, and compares the references with each other

A text is a line; in it newline is written \\n, tab \\t, backslash \\\\ and nothing else is escaped. Special tokens are
recognised, and BOS is added where the tokenizer does that. Beside it in tests/fixtures/text:

    lines.<name>.ids     per text a line of comma separated ids (empty: no tokens)
                         smollm2, gemma3: the real models' vocabularies, by llama.cpp
                         tiny-gpt2, tiny-smollm, tiny-qwen2, tiny-llama3, tiny-gemma: the tokenizers of tests/fixtures/tiny
                         (families llama, smollm2, qwen2, llama3-rope, gemma3), by the `tokenizers` package
    edge.txt, edge.<name>.ids
                         texts on which references differ, with the right answer: runs of more than 31 blanks (right: longest
                         token first, as SentencePiece and llama.cpp have it) and a literal U+2581. SentencePiece turns
                         blanks into U+2581 before it does anything else, so that gemma3 can't tell the two apart: right is
                         what the text with blanks instead gives (llama.cpp looks for the tokens of blank runs before it
                         turns blanks into U+2581, and finds none in a run of literal ones)
    For tiny-qwen2 NFC is part of the answer: tokenizer.json asks for it, a GGUF can't, and llama.cpp leaves it out.

PEER and MODELS as in make_real_refs.py. The list is the same on every machine: only random.Random.random() is used, whose
sequence Python guarantees, and no character newer than Unicode 8.
"""

import json
import pathlib
import random
import subprocess
import sys
import tempfile
import unicodedata

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUT = ROOT / "tests/fixtures/text"
N_LINES = 2000
SEED = 20260603

WORDS = {
    "latin": "the of and to water river bridge don't it's they've I'll we'd she's O'Neill THE Bridge camelCase snake_case "
             "HTTPServer iPhone e.g. i.e. U.S.A. Mr. co-operate mother-in-law a I antidisestablishmentarianism qwertyuiop "
             "strengths rhythm queue jazz Buffalo".split(),
    "accents": "café naïve façade Zürich Ångström crème brûlée señor piñata über straße Øresund Łódź Dvořák Gödel Čapek "
               "İstanbul ığdır Đorđe Škoda mañana niño coöperate œuvre æther Þór ðað ſharp ﬁnd ŉame".split(),
    "vietnamese": "Việt Nam tiếng người đường phở bánh mì được không Nguyễn Huế rượu những thưởng ngữ".split(),
    "greek": "και το νερό Ελλάδα ποτάμι ΑΘΗΝΑ λόγος ὁ ἄνθρωπος φιλοσοφία ΣΊΣΥΦΟΣ σίσυφος μῆνιν ἄειδε".split(),
    "cyrillic": "и вода река мост Москва ЁЛКА ёлка щука объём Київ їжак ґанок Љубљана ѝ Қазақстан подъезд".split(),
    "arabic": "ماء نهر جسر السلام عليكم القاهرة مُحَمَّد كِتَابٌ پنجاب گربه چای ک‌تاب لا إله ١٢٣ ۴۵۶".split(),
    "hebrew": "מים נהר גשר שלום עולם ירושלים שָׁלוֹם בְּרֵאשִׁית צה״ל ג׳ורג׳".split(),
    "devanagari": "पानी नदी पुल नमस्ते हिन्दी क्षत्रिय ज्ञान श्री किताब १२३ विद्यार्थी ऋषि".split(),
    "indic": "বাংলা নদী ਪੰਜਾਬ ગુજરાત தமிழ் తెలుగు ಕನ್ನಡ മലയാളം සිංහල".split(),
    "thai": "น้ำ แม่น้ำ สะพาน สวัสดีครับ กรุงเทพฯ ภาษาไทย ๑๒๓ เป็น ที่".split(),
    "asia": "ភាសាខ្មែរ မြန်မာ ລາວ བོད་ སུ་ ᠮᠣᠩᠭᠣᠯ ქართული Հայերեն አማርኛ ᏣᎳᎩ".split(),
    "chinese": "水 河 桥 你好 世界 中华人民共和国 北京 春天来了 繁體字 漢語 㐀 二〇一五年".split(),
    "japanese": "水 川 橋 こんにちは 世界 カタカナ ﾊﾝｶｸ 東京タワー です ます ヴァイオリン 々 ー が ぱ １２３ ＡＢＣ".split(),
    "korean": "물 강 다리 안녕하세요 세계 대한민국 서울 한국어 ㄱㄴㄷ 뷁 값이".split(),
    "emoji": ["😀", "🎉", "👍", "👍🏽", "👩‍💻", "👨‍👩‍👧‍👦", "🏳️‍🌈", "🇫🇷", "🇯🇵🇰🇷", "1️⃣", "#️⃣", "❤️", "❤", "☃", "✅", "🤷🏻‍♀️", "🧀", "🕵🏿", "©️", "™", "🀄",
              "♥︎"],
    "symbols": "→ ← ⇒ ∀x∈ℝ ∑ ∫ √2 ≤ ≥ ≠ ± × ÷ ½ ¾ x² y³ H₂O µm Ω ℃ № § ¶ † • … — – ‘q’ “q” «q» ‹q› „q“ ¿ ¡ ★ ♫ █ ▓ │ ┌ ☐ ⌘ ㎏ ① Ⅳ ⅷ ª º"
               .split(),
    "money": "$19.99 €3,50 £1m ¥1000 ₹500 ₿0.1 ₩5 100% 5‰ 20° 37.5°C 6'2\" 7″".split(),
}
NUMBERS = ["0", "7", "42", "007", "123", "1234", "12345", "123456", "1234567", "3.14159", "-1", "+5", "1e-9", "6.022e23", "0x7fff",
           "0b1010", "1_000_000", "1,234,567.89", "1.234.567,89", "1'000", "12:34:56", "2026-06-01", "01/02/03", "192.168.0.1", "::1",
           "v1.2.3-rc4", "1st", "22nd", "A4", "B2B", "3D", "50-60", "1/2", "2^10", "10%", "#42", "(+1) 555-0100", "١٢٣٤", "۱۲۳", "१२३४", "๔๕", "１２３",
           "²³", "½⅓", "Ⅻ", "௧௨", "九十", "㊿"]
CODE = [
    "for (int i = 0; i < n; i++) {", "if (x != NULL && *x == '\\0') return -1;", "#include <stdio.h>", "return a ? b : c;",
    "uint64_t h = 0xcbf29ce484222325ULL;", "printf(\"%5.2f\\n\", x);", "/* comment */ // another", "p->next = &q[i++];",
    "def f(self, *args, **kwargs) -> None:", "x = [i for i in range(10) if i % 2 == 0]", "@property", "lambda x: x ** 2",
    "print(f\"{name!r:>10} = {value:.3f}\")", "'''doc'''", "if __name__ == \"__main__\":", "async with a as b:", "raise ValueError('no')",
    "const f = async (x) => { await g(x); };", "let {a, ...rest} = obj ?? {};", "`${a}-${b}`", "x === undefined || !y", "/^[a-z]+\\d*$/gi",
    "<div class=\"a b\" id='c'>&nbsp;&amp;</div>", "<!-- comment -->", "<br/>", "</body></html>", "<s>struck</s>", "a[href^=\"http\"]:hover { color: #fff; }",
    "SELECT * FROM t WHERE a >= 1 AND b LIKE '%x_'; -- all", "fn main() -> Result<(), Box<dyn Error>> {", "let mut v: Vec<u8> = vec![0; 16];",
    "impl<'a, T: ?Sized> Foo for &'a T {}", "func (s *Server) Run(ctx context.Context) error {", "ch <- v; x := <-ch", "std::vector<std::string> v{};",
    "template <typename T> auto f(T&& t) -> decltype(t);", "a <<= 1; b >>>= 2; c |= ~d ^ e;", "(define (f x) (if (< x 2) 1 (* x (f (- x 1)))))",
    "main = putStrLn . unwords =<< getArgs", "echo \"$HOME\" | sed -e 's/a/b/g' > out.txt 2>&1", "#!/bin/sh", "tar -xzf file.tar.gz --strip-components=1",
    "{\"a\": [1, 2.5, -3e10, null, true], \"b\": {\"c\": \"\\u00e9\"}}", "key: value  # yaml", "- item: [a, b]", "[section]", "key=\"v\" ; ini",
    "\\begin{equation} \\frac{a}{b} = \\sqrt{x^2} \\end{equation}", "$\\alpha_i \\in \\mathbb{R}^{n}$", "| a | b |", "|---|:-:|", "## Heading", "**bold** _it_ `code`",
    "[text](https://example.org/a?b=1&c=2#d)", "```c", "- [x] done", "> quoted", "1. first", "C:\\Windows\\System32", "/usr/local/bin", "user@example.org", "foo.bar(baz)[0]",
    "i++ + ++i", "a--b", "x=-1", "<=>", "!==", "->*", "::", "...", "???", "!?", "/*", "*/", "//", "\\\\", "%d%s%%", "&&||", "0.1+0.2", "#define X(a) #a##b",
    "mov eax, [ebx+4*ecx]", "    jmp .L1", "0000:00:1f.2", "SGVsbG8gd29ybGQ=", "d41d8cd98f00b204e9800998ecf8427e", "550e8400-e29b-41d4-a716-446655440000",
]
SPACES = [" ", "  ", "   ", "    ", "\t", "\t\t", " \t", "\t ", "\n", "\n\n", "\n\n\n", " \n", "\n ", "  \n  ", "\t\n", "\n\t\t", "\u00a0", "\u00a0\u00a0", "\u3000",
          "\u3000\u3000", "\u2003", "\u2009", "\u200a", "\u202f", "\u205f", "\u1680", "\u2028", "\u2029", "\u0085", "\u000b", "\u000c", "\u200b", "\u2060", "\ufeff", "\u00ad",
          " " * 7, " " * 8, " " * 15, " " * 16, " " * 31, "\t" * 5, "\n" * 5, "\n" * 12, " \u00a0 ", "\n \n \n"]
PUNCTUATION = ["!", "?", ".", ",", ";", ":", "-", "--", "---", "...", "....", "!!!", "?!", "?!?!", "()", "[]", "{}", "<>", "''", "\"\"", "``", "~~~", "***", "===", "####", "_____",
               "/\\", "||", "&&", "^^", "$$", "%%", "@@", "++", "+=", "=>", "<-", "::", ":-)", ";-)", ":D", "<3", "\\o/", "。", "、", "！", "？", "，", "：", "「」", "『", "（）", "،", "؟", "।",
               "॥", "·", "՞", "—", "–", "“”", "‘", "’", "«»", "…", "·", "‽", "№", "†"]
SENTENCES = [
    "", " ", "a", "A", "\n", "\t", "  leading and trailing  ", "trailing space ", "Hello, world!", "Hello,world", "hello   world", "HELLO WORLD", "Hello\nworld\n",
    "It's John's, isn't it? They'd've said we're, I'm, you'll, he'd.", "IT'S JOHN'S, ISN'T IT? THEY'D SAID WE'RE, I'M, YOU'LL, HE'D.", "it’s they’re I’m we’ll", "'s 't 're 've 'm 'll 'd",
    "'S 'T 'RE 'VE 'M 'LL 'D", "a's b't c're", "'sx 'tx", "''s", "rock 'n' roll", "the '90s", "1's 2nd's", "don''t", "'tis", "O'Brien's", "x'ſ",
    "What is 12345678901234567890?", "3.14159265358979", "1 2 3 4 5", "1  2   3", "a1b2c3", "1a2b3c", "abc123def456", "v2.0.1", "2024年6月1日", "第3章", "5kg 10 kg", "1,000,000", "one2three",
    "if (a<b && c>d) { e = f[g]; }", "x\ty\tz", "a\n\nb\n\n\nc", "line one\\nnot a newline", "back\\slash \\t \\\\", "tab\there", "  two", "   three", "    four\n        eight", "end.\n", "end. \n", "end.\n ",
    ".\n\n", "?\n\nA", "!!\n\n\n!!", "():\n    pass", "{\n\t}\n", "a \n b", "a \n\n b", "a\n \nb", " \n", "\n ", " a", "  a", "\ta", "a\t", "a ", "a  ", "a   b    c     d",
    "foo_bar __init__ _x x_", "https://example.org/path/to/file.html?q=a+b&x=%20#frag", "me@example.org", "C++ C# F# .NET", "AT&T R&D Q&A", "50% off!", "#hashtag @mention", "a/b/c", "and/or", "e-mail", "re-use", "--flag=value",
    "(parenthesised)", "[bracketed]", "{braced}", "\"quoted\"", "'quoted'", "`ticked`", "<tagged>", "...and so on...", "Wait... what?!", "No.1", "a.b.c", "e.g., this", "U.S.A.'s", "Ph.D.", "...", "…", "wow!!!1!",
    "Straße STRASSE straße", "İi Iı", "ǅ ǆ Ǆ", "ﬁ ﬂ ﬃ", "Ａｂｃ１２３", "ℌello", "𝒜𝓁𝒾𝒸ℯ", "𝟏𝟐𝟑", "①②③", "Ⅷ", "½ + ¼", "x² + y³", "H₂O", "a̐éö̲", "e\u0301 é", "n\u0303 ñ", "A\u030a Å \u212b", "q\u0307\u0323 q\u0323\u0307",
    "각 \u1100\u1161\u11a8", "が か\u3099", "ộ o\u0323\u0302 o\u0302\u0323", "\u0344", "\u1e9b\u0323", "न\u093c ऩ", "क\u094dष", "க்ஷ", "ก็", "กำ", "لا ﻻ", "ﷺ", "السَّلَامُ", "بسم الله", "مرحبا، كيف حالك؟", "שלום, מה נשמע?", "abc אבג 123 دهو",
    "你好，世界！", "我想在apple工作1314151天～", "東京は日本の首都です。", "한국어와 English를 섞어서 쓴다.", "안녕하세요? 반갑습니다!", "Привет, мир! Как дела?", "Γειά σου, Κόσμε! Πώς είσαι;", "สวัสดีชาวโลก", "नमस्ते दुनिया। आप कैसे हैं?", "សួស្តីពិភពលោក", "გამარჯობა მსოფლიო", "Բարեւ աշխարհ",
    "Xin chào thế giới", "Zażółć gęślą jaźń", "Příliš žluťoučký kůň úpěl ďábelské ódy", "Falsches Üben von Xylophonmusik quält jeden größeren Zwerg", "Voix ambiguë d’un cœur qui préfère les jattes de kiwis", "El pingüino Wenceslao hizo kilómetros",
    "Съешь ещё этих мягких французских булок", "いろはにほへと ちりぬるを", "天地玄黃，宇宙洪荒。", "👋🌍!", "👩🏽‍🚀 and 👨‍👩‍👧‍👦", "flags 🇩🇪🇫🇷🇯🇵", "keycaps 1️⃣2️⃣#️⃣", "😀😃😄😁", "😀 😃", "ok👍🏿ok", "❤️‍🔥", "text\ufe0e ❤\ufe0e", "a\u200db", "a\u200cb", "\u200e\u200f", "a\u00adb", "\ufeffBOM", "zero\u200bwidth",
    "a\u00a0b", "\u00a0", "a\u3000b", "\u3000\u3000a", "a\u2003b", "a\u2028b", "a\u0085b", "a\u000bb", "\u000c", "a\u180eb", "\u0001\u0002", "\u007f", "\u0080\u009f", "\u00a0 \u00a0", " \u3000 ", "\t\u00a0\n", "\ufffd", "\ufffe", "\U0001f9ff",
    "<|endoftext|>", "<|im_start|>user\nHi<|im_end|>\n", "a<|endoftext|>b", "<|im_end|><|im_start|>", "<|im_end", "<|unknown|>", "<bos>x", "<eos>", "<start_of_turn>user\nhi<end_of_turn>\n", "<unk>", "<pad>", "<0x41>", "[INST]", "<think>\nhm\n</think>", "<tool_call>",
    "<|begin_of_text|><|eot_id|>", "x <|im_end|> y", "\n<|im_end|>\n", "<table><tr><td>1</td></tr></table>", "<h1>Title</h1>", "<s>", "</s>", "<strong>b</strong><em>i</em>", "<code>x</code>", "<a href=\"x\">y</a>", "<ul>\n<li>a</li>\n</ul>",
]
# letters and marks of blocks that have long been full; used one by one and in short runs
BLOCKS = [(0x21, 0x7e), (0xa1, 0xac), (0xae, 0xff), (0x100, 0x17f), (0x180, 0x24f), (0x250, 0x2af), (0x300, 0x36f), (0x391, 0x3a1), (0x3b1, 0x3c9), (0x400, 0x482), (0x531, 0x556),
          (0x5d0, 0x5ea), (0x621, 0x652), (0x905, 0x939), (0xe01, 0xe3a), (0x10d0, 0x10f0), (0x1100, 0x1159), (0x1e00, 0x1e95), (0x1f00, 0x1f15), (0x2010, 0x2027), (0x2030, 0x205e), (0x20a0, 0x20b5),
          (0x2150, 0x2180), (0x2190, 0x21ff), (0x2200, 0x22ff), (0x2460, 0x24ff), (0x2500, 0x257f), (0x2600, 0x269c), (0x3041, 0x3096), (0x30a1, 0x30fa), (0x4e00, 0x9fa5), (0xac00, 0xd7a3), (0xff01, 0xff5e),
          (0x10400, 0x1044f), (0x12000, 0x1236e), (0x1d400, 0x1d454), (0x1f300, 0x1f320), (0x1f600, 0x1f64f), (0x20000, 0x2a6d6)]


class Maker:
    def __init__(self):
        self.random = random.Random(SEED).random

    def below(self, n):
        return int(self.random() * n)

    def pick(self, items):
        return items[self.below(len(items))]

    def run(self, low, high):
        return range(low + self.below(high - low + 1))

    def sentence(self):
        words = WORDS[self.pick(list(WORDS))]
        out = ""
        for k in self.run(2, 7):
            out += ("" if k == 0 else self.pick([" ", " ", " ", " ", " ", ", ", "", "  "])) + self.pick(words)
        return out + self.pick(["", ".", "!", "?", "...", " ", "\n", "。"])

    def mixed(self):
        out = ""
        for _ in self.run(2, 6):
            out += self.pick(WORDS[self.pick(list(WORDS))]) + self.pick([" ", " ", "", "-", "\n", "/", "'s ", ": "])
        return out

    def numbers(self):
        out = ""
        for _ in self.run(1, 5):
            number = self.pick(NUMBERS) if self.below(3) else str(self.below(10 ** (1 + self.below(12))))
            out += number + self.pick([" ", " ", ", ", "", "-", ".", "x", " + ", "\n", "%"])
        return out

    def code(self):
        out = ""
        for k in self.run(1, 3):
            out += ("\n" if k else "") + self.pick(["", "", "    ", "        ", "\t", "\t\t", "  ", " "]) + self.pick(CODE)
        return out + self.pick(["", "", "\n", " ", "\n\n", ";"])

    def spaces(self):
        out = self.pick(SPACES) if self.below(2) else ""
        for _ in self.run(1, 4):
            out += self.pick(["a", "b1", "The", "x.", "é", "水", "42", "(", ";", "'s", "Ж", "😀"]) + self.pick(SPACES)
        return out

    def punctuation(self):
        out = ""
        for _ in self.run(1, 6):
            out += self.pick(PUNCTUATION) + self.pick(["", "", "", " ", "a", "9", "\n", "É"])
        return out

    def emoji(self):
        out = ""
        for _ in self.run(1, 5):
            out += self.pick(WORDS["emoji"]) + self.pick(["", "", " ", "a", "!", "\u200d", "\ufe0f"])
        return out

    def points(self):
        out = ""
        for _ in self.run(1, 4):
            low, high = self.pick(BLOCKS)
            for _ in self.run(1, 4):
                out += chr(low + self.below(high - low + 1))
            out += self.pick(["", " ", " ", "\n"])
        return out

    def decomposed(self):
        kind = self.pick(["accents", "vietnamese", "greek", "cyrillic", "korean", "japanese", "devanagari", "arabic"])
        words = [self.pick(WORDS[kind]) for _ in self.run(1, 4)]
        return " ".join(unicodedata.normalize("NFD", w) if self.below(4) else w for w in words)

    def cased(self):
        words = [self.pick(WORDS[self.pick(["latin", "accents", "greek", "cyrillic"])]) for _ in self.run(1, 5)]
        return " ".join(self.pick([str.upper, str.lower, str.title, str.swapcase])(w) for w in words)


def harmless(text):
    """Leaves out what the references are known to read differently; edge.txt has those."""
    return "\u2581" not in text and " " * 32 not in text and "\r" not in text and "\0" not in text


def make_lines():
    maker = Maker()
    kinds = [maker.sentence] * 4 + [maker.mixed] * 2 + [maker.numbers] * 3 + [maker.code] * 4 + [maker.spaces] * 2 + \
        [maker.punctuation, maker.emoji, maker.points, maker.points, maker.decomposed, maker.decomposed, maker.cased]
    lines = list(dict.fromkeys(SENTENCES + CODE + NUMBERS + [w for words in WORDS.values() for w in words]))
    seen = set(lines)
    while len(lines) < N_LINES:
        text = maker.pick(kinds)()
        if text not in seen and harmless(text):
            seen.add(text)
            lines.append(text)
    assert len(lines) == N_LINES and all(harmless(t) for t in lines)
    return lines


EDGE = [" " * n for n in (32, 33, 40, 62, 63, 64, 100)] + ["a" + " " * n + "b" for n in (32, 33, 34, 47, 48, 63, 95)] + \
    ["x\n" + " " * 36 + "y = 1", "\u2581", "a\u2581b", "\u2581a", " \u2581 a", "a \u2581", "\u2581\u2581\u2581", "\u2581 \u2581",
     "the\u2581the the", "\u2581" * 33, "\u2581" + " " * 32]


def escape(text):
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t")


def write_lines(path, lines):
    path.write_bytes("".join(line + "\n" for line in lines).encode("utf-8"))


# --- references -------------------------------------------------------------------------------------------------------

def llama_cpp_ids(peer, model, texts):
    libs = peer / "nlc/node_modules/@node-llama-cpp/linux-x64/bins/linux-x64"
    with tempfile.NamedTemporaryFile() as f:
        f.write("".join(escape(t) + "\n" for t in texts).encode("utf-8"))
        f.flush()
        out = subprocess.run([str(peer / "peer_ref"), "-m", str(model), "-b", str(libs), "tokenize", f.name], check=True,
                             capture_output=True, text=True).stdout
    return [[int(i) for i in line.split(",") if i] for line in out.split("\n")[:-1]]


def from_gguf(path):
    """A `tokenizers` tokenizer from a GGUF's vocabulary: the second opinion on llama.cpp for the two real models."""
    import gguf
    from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
    fields = gguf.GGUFReader(path).fields
    value = lambda key: fields["tokenizer.ggml." + key].contents()
    tokens, types = value("tokens"), value("token_type")
    vocab = {t: i for i, t in enumerate(tokens)}
    if value("model") == "gpt2":
        assert value("pre") == "smollm"
        tok = Tokenizer(models.BPE(vocab=vocab, merges=[tuple(m.split(" ")) for m in value("merges")]))
        tok.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                                     pre_tokenizers.ByteLevel(add_prefix_space=False)])
        tok.decoder = decoders.ByteLevel()
    else:
        scores, merges = value("scores"), []
        for piece, i in vocab.items():
            if types[i] == 1:
                pairs = [(piece[:k], piece[k:]) for k in range(1, len(piece)) if piece[:k] in vocab and piece[k:] in vocab]
                merges += [(scores[i], p) for p in sorted(pairs, key=lambda p: (vocab[p[0]], vocab[p[1]]))]
        merges = [p for _, p in sorted(merges, key=lambda m: -m[0])]
        tok = Tokenizer(models.BPE(vocab=vocab, merges=merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
        tok.normalizer = normalizers.Replace(" ", "\u2581")
        tok.pre_tokenizer = pre_tokenizers.Split(" ", behavior="merged_with_previous", invert=False)
        tok.post_processor = processors.TemplateProcessing(single="<bos> $A", special_tokens=[("<bos>", vocab["<bos>"])])
    tok.add_special_tokens([AddedToken(t, normalized=False, special=True) for t, k in zip(tokens, types) if k == 3])
    tok.add_tokens([AddedToken(t, normalized=False, special=False) for t, k in zip(tokens, types) if k == 4])
    return tok


def differences(name, texts, a, b):
    wrong = [i for i in range(len(texts)) if a[i] != b[i]]
    print("%-14s %d of %d texts differ between llama.cpp and tokenizers" % (name, len(wrong), len(texts)))
    for i in wrong[:12]:
        print("    %4d %r\n         llama.cpp  %s\n         tokenizers %s" % (i, texts[i], a[i][:40], b[i][:40]))


def write_ids(name, stem, ids):
    write_lines(OUT / ("%s.%s.ids" % (stem, name)), [",".join(map(str, row)) for row in ids])


def make_ids(peer, models, lines):
    from tokenizers import Tokenizer
    sys.path.insert(0, str(ROOT / "tools"))
    import make_real_refs
    for name, file in make_real_refs.MODELS.items():
        tok = from_gguf(models / file)
        for stem, texts in (("lines", lines), ("edge", EDGE)):
            theirs = llama_cpp_ids(peer, models / file, texts)
            hf = [e.ids for e in tok.encode_batch(texts)]
            differences(name + " " + stem, texts, theirs, hf)
            if stem == "edge" and name == "gemma3":
                theirs = llama_cpp_ids(peer, models / file, [t.replace("\u2581", " ") for t in texts])
            write_ids(name, stem, theirs)
    tiny = ROOT / "tests/fixtures/tiny"
    for name, family in (("tiny-gpt2", "llama"), ("tiny-smollm", "smollm2"), ("tiny-qwen2", "qwen2"),
                         ("tiny-llama3", "llama3-rope"), ("tiny-gemma", "gemma3")):
        tok = Tokenizer.from_file(str(tiny / family / "hf/tokenizer.json"))
        hf = [e.ids for e in tok.encode_batch(lines)]
        differences(name, lines, llama_cpp_ids(peer, tiny / family / (family + "-f32.gguf"), lines), hf)
        write_ids(name, "lines", hf)


def main():
    if len(sys.argv) not in (1, 3):
        sys.stderr.write(__doc__)
        return 2
    lines = make_lines()
    OUT.mkdir(parents=True, exist_ok=True)
    write_lines(OUT / "lines.txt", map(escape, lines))
    write_lines(OUT / "edge.txt", map(escape, EDGE))
    if len(sys.argv) == 3:
        make_ids(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve(), lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
