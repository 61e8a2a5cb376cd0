/* Templates for models that carry none, used only when somebody asks for one by name.  Each writes the plain turns of
 * its family, with a system turn where the family has one, and no tools. */
#include "text/chat_int.h"

#include <string.h>

typedef struct {
    const char *name, *text;
} row;

static const row rows[] = {
    {"chatml", "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endfor %}"
               "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"},
    {"gemma", "{{ bos_token }}{% for m in messages %}"
              "{% if m.role == 'system' %}{{ raise_exception('a system message has no place in this template') }}{% endif %}"
              "{{ '<start_of_turn>' + ('model' if m.role == 'assistant' else m.role) + '\\n' + m.content | trim + "
              "'<end_of_turn>\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}"},
    {"llama2", "{% set ns = namespace(system='') %}{% for m in messages %}"
               "{% if m.role == 'system' %}{% set ns.system = '<<SYS>>\\n' + m.content + '\\n<</SYS>>\\n\\n' %}"
               "{% elif m.role == 'user' %}{{ bos_token + '[INST] ' + ns.system + m.content + ' [/INST]' }}"
               "{% set ns.system = '' %}"
               "{% else %}{{ ' ' + m.content + ' ' + eos_token }}{% endif %}{% endfor %}"},
    {"llama3", "{{ bos_token }}{% for m in messages %}{{ '<|start_header_id|>' + m.role + '<|end_header_id|>\\n\\n' + "
               "m.content | trim + '<|eot_id|>' }}{% endfor %}"
               "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}"},
    {"mistral", "{{ bos_token }}{% set ns = namespace(system='') %}{% for m in messages %}"
                "{% if m.role == 'system' %}{% set ns.system = m.content + '\\n\\n' %}"
                "{% elif m.role == 'user' %}{{ '[INST] ' + ns.system + m.content + '[/INST]' }}{% set ns.system = '' %}"
                "{% else %}{{ ' ' + m.content + eos_token }}{% endif %}{% endfor %}"},
    {"phi3", "{% for m in messages %}{{ '<|' + m.role + '|>\\n' + m.content + '<|end|>\\n' }}{% endfor %}"
             "{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% endif %}"},
    {"zephyr", "{% for m in messages %}{{ '<|' + m.role + '|>\\n' + m.content + eos_token + '\\n' }}{% endfor %}"
               "{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% endif %}"},
};

const char *sl_chat_default(const char *name)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].name, name) == 0) return rows[i].text;
    return NULL;
}

void sl_chat_default_names(char buf[160])
{
    *buf = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        strcat(strcat(buf, i ? ", " : ""), rows[i].name);
}
