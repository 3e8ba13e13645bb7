package conformance

import (
	"strings"
	"testing"
)

func TestRulesAreChecked(t *testing.T) {
	const section = "= lnet-core 2.1\tEntries\n"
	for _, c := range []struct{ name, text, want string }{
		{"no section", "lnet-core 2.1\tx", `rules.txt:1: rule "lnet-core 2.1" stands before`},
		{"section without a number", "= lnet-core\tx", "not a document and a number"},
		{"no title", section + "lnet-core 2.1", "no title"},
		{"no tab", section + "lnet-core 2.1 x", "no title"},
		{"twice", section + "lnet-core 2.1\tx\nlnet-core 2.1\ty", "rules.txt:3: \"lnet-core 2.1\" stands here twice"},
		{"another section's", section + "lnet-core 2.2\tx", `in section "lnet-core 2.1"`},
		{"a longer section's", section + "lnet-core 2.12\tx", "after the section"},
		{"range", section + "lnet-core 2.1 (1)-(2)\tx", "after the section"},
		{"gap", section + "lnet-core 2.1 (1)\tx\nlnet-core 2.1 (3)\ty", `rule "lnet-core 2.1 (3)": a number before it is missing`},
		{"gap at first", section + "lnet-core 2.1 (2)\tx", "a number before it is missing"},
		{"gap before a list", section + "lnet-core 2.1 (1)\tx\nlnet-core 2.1 more (2)\ty", "a number before it is missing"},
		{"gap of letters", section + "lnet-core 2.1 (1a)\tx\nlnet-core 2.1 (1c)\ty", "a number before it is missing"},
		{"form", section + "lnet-core 2.1 (1\tx", "is not of the form"},
		{"reason of no kind", section + "lnet-core 2.1\tx\tlater", `reason "later" has no kind`},
	} {
		_, err := parseRules(c.text)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q in it", c.name, err, c.want)
		}
	}
}
