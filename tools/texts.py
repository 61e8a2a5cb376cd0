"""Texts that the generators share: all of them written for this project, so nothing here has another's licence.

CORPUS   what the tiny tokenizers of make_fixtures.py are trained on
TEXTS    the ten short texts of make_real_refs.py, (name, text)
PROMPTS  the prompts of its greedy continuations
"""

CORPUS = """\
A river does not hurry, and yet it arrives. The miller who built his wheel beside it knew this, and so did the heron.
When the water is high the gates are opened one after another; when it is low they are closed, and the pond fills again.
She asked him how much the bridge could carry. "More than the cart," he said, "and less than the cart and the bull."
It's the third time that they've told us the same thing, and we'll not believe it until we have seen it ourselves.
I'd rather read one page with care than ten without; that's what my teacher said, and she'd taught for forty years.
There were 12 boats in the harbour in 1874, 37 in 1901 and only 5 of them were left by 1950: the others had been sold.
The total was 1,234.56 for the first lot, 98.7% of the estimate, and 3.14159 times the square of the radius for the rest.
Measure twice, cut once. Measure three times and the light is gone. The light was going, the light was nearly gone.
In the morning the children carried the baskets to the market, and in the evening they carried the baskets back again.
What is the name of the street where the baker lives? Where does the road to the station begin? Who was the first to know?
The engine reads a layer, computes, and reads the next; while it computes, the next one is already on its way from the disk.
Nothing in the house was new, but everything in the house was clean, and the clock on the wall had been right for a century.

def total(values, start=0):
    for value in values:
        start += value
    return start

int main(void) {
    for (int i = 0; i < 10; i++) {
        printf("%d\\n", i * i);
    }
    return 0;
}

SELECT name, count(*) FROM boats WHERE length > 12 GROUP BY name ORDER BY 2 DESC;
{"name": "mill", "gates": [1, 2, 3], "open": true, "level": null}
<p class="note">The <b>mill</b> &amp; the pond</p>

Die Mühle steht am Fluß, und das Wasser fließt über das große Rad. Wir haben schöne Äpfel und süße Birnen gekauft.
Le garçon a mangé une crêpe à la fenêtre, et l'été n'était pas encore arrivé. Où êtes-vous allés hier?
El niño soñó con un pingüino. ¿Qué hora es? ¡Mañana será otro día! La señora está en la cocina.
Река течёт медленно, и мельница стоит на берегу. Сколько лодок было в гавани? Никто не знал, и никто не спросил.
Ο μύλος είναι δίπλα στο ποτάμι και το νερό τρέχει. Πόσες βάρκες ήταν στο λιμάνι; Κανείς δεν ήξερε.
水は高い所から低い所へ流れる。水車は川のそばにある。今日は天気がいいです。
河水流得很慢，水车在河边。港口里有多少条船？没有人知道。
강물은 천천히 흐르고 물레방아는 강가에 있다. 아무도 몰랐다.
النهر يجري ببطء والطاحونة بجانبه. كم قاربا كان في الميناء؟
נחל זורם לאט, והטחנה לידו. כמה סירות היו בנמל?
नदी धीरे बहती है और चक्की उसके किनारे है।
"""

TEXTS = [
    ("prose", "The old lighthouse had not been lit for thirty years, and still the keeper climbed its stairs every "
              "evening. He said that he went up to look at the weather. His daughter, who knew him better, said that he "
              "went up to be looked for."),
    ("code_python", "def merge(left, right):\n    out = []\n    i = j = 0\n    while i < len(left) and j < len(right):\n"
                    "        if left[i] <= right[j]:\n            out.append(left[i])\n            i += 1\n"
                    "        else:\n"),
    ("code_c", "#include <stdio.h>\n\nint main(int argc, char **argv)\n{\n    for (int i = 1; i < argc; i++)\n"
               "        printf(\"%d: %s\\n\", i, argv[i]);\n    return argc > 1 ? 0 : 2;\n}\n"),
    ("numbers", "In 1969, 3 astronauts travelled 384,400 km; 12 * 12 = 144, 17 + 25 = 42, and 2^10 = 1024. "
                "The price rose from $19.99 to $24.50, or 22.6%."),
    ("cyrillic", "Вечером мы вышли к реке и долго смотрели, как по воде плывут лодки. "
                 "Никто не говорил ни слова."),
    ("chinese", "春天来了，河边的柳树开始发芽。老人坐在桥上，看着孩子们放风筝，想起了自己小时候的事情。今天的天气真好。"),
    ("list", "Shopping list:\n- 2 loaves of bread\n- 1 bottle of milk\n- 6 eggs\n- butter (unsalted)\n- apples\n\n"
             "Things to do:\n1. Call the plumber\n2. Return the library books\n3. Water the plants\n"),
    ("dialogue", "\"Where have you been?\" asked Anna.\n\"At the station,\" said Peter. \"The train was late again.\"\n"
                 "\"Then why are your shoes wet?\"\nHe looked down. \"It's a long story,\" he said, \"and you won't "
                 "believe it.\"\n"),
    ("mixed", "Café crème — 3,50 €; naïve façade, Zürich → Genève (277 km). “Quoted text” … and an emoji 🙂, "
              "a URL: https://example.org/a?b=1&c=%20d"),
    ("facts", "Water boils at one hundred degrees Celsius at sea level. The capital of France is Paris, the capital of "
              "Italy is Rome, and the capital of Japan is Tokyo. The largest planet of the solar system is Jupiter, and "
              "the smallest is"),
]

# the first four leave most models little choice (long stretches without a near-tie), the others leave them much
PROMPTS = [
    "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12,",
    "A B C D E F G H I J K L M N O P Q R S T U V W X Y Z\nA B C D E",
    "[{\"id\": 1, \"name\": \"a\"}, {\"id\": 2, \"name\": \"b\"}, {\"id\": 3, \"name\": \"c\"},",
    "January has 31 days.\nMarch has 31 days.\nApril has 30 days.\nMay has 31 days.\nJune has",
    "The cat sat on the mat. The dog sat on the log. The cat sat on the mat. The dog sat",
    "Question: What is the capital of France?\nAnswer:",
    "Once upon a time, in a small village by the river, there lived",
    "def fibonacci(n):\n    ",
]
