package conformance

import (
	"strings"
	"testing"
)

func TestRulesAreChecked(t *testing.T) {
	const section = "= lnet-core 2.1\tEntries\n"
	for _, c := range []struct{ name, text, want string }{
		{"no section", "lnet-core 2.1\tx", `x.txt:1: rule "lnet-core 2.1" stands before`},
		{"section without a number", "= lnet-core\tx", "not a document and a number"},
		{"section of no document", "= lnet-cord 2.1\tx", "not a document and a number"},
		{"section of a part without a number", "= mpilnd A.\tx", "not a document and a number"},
		{"no title", section + "lnet-core 2.1", "no title"},
		{"no tab", section + "lnet-core 2.1 x", "no title"},
		{"twice", section + "lnet-core 2.1\tx\nlnet-core 2.1\ty", "x.txt:3: \"lnet-core 2.1\" stands here twice"},
		{"another section's", section + "lnet-core 2.2\tx", `in section "lnet-core 2.1"`},
		{"a longer section's", section + "lnet-core 2.12\tx", "after the section"},
		{"range", section + "lnet-core 2.1 (1)-(2)\tx", "after the section"},
		{"gap", section + "lnet-core 2.1 (1)\tx\nlnet-core 2.1 (3)\ty", `rule "lnet-core 2.1 (3)": a number before it is missing`},
		{"gap at first", section + "lnet-core 2.1 (2)\tx", "a number before it is missing"},
		{"gap before a list", section + "lnet-core 2.1 (1)\tx\nlnet-core 2.1 more (2)\ty", "a number before it is missing"},
		{"gap of letters", section + "lnet-core 2.1 (1a)\tx\nlnet-core 2.1 (1c)\ty", "a number before it is missing"},
		{"counting on after a gap", section + "lnet-core 2.1 (1)\tx\n= lnet-core 2.2\tMore\nlnet-core 2.2 (3)\ty", "a number before it is missing"},
		{"counting on in another chapter", section + "lnet-core 2.1 (1)\tx\n= lnet-core 3.1\tMore\nlnet-core 3.1 (2)\ty", "a number before it is missing"},
		{"counting on in a list", section + "lnet-core 2.1 (1)\tx\n= lnet-core 2.2\tMore\nlnet-core 2.2 more (2)\ty", "a number before it is missing"},
		{"form", section + "lnet-core 2.1 (1\tx", "is not of the form"},
		{"reason of no kind", section + "lnet-core 2.1\tx\tlater", `reason "later" has no kind`},
	} {
		_, err := parseRules("x.txt", c.text)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q in it", c.name, err, c.want)
		}
	}
}

// The rules of a section may continue the numbers of the previous section. The numbers of test cases are
// names.
func TestRulesThatDoNotBeginAtOne(t *testing.T) {
	sections, err := parseRules("x.txt", strings.Join([]string{
		"= selection 8.1\tLocal",
		"selection 8.1 (1)\tx",
		"selection 8.1 (2)\tx",
		"= selection 8.2\tSeveral",
		"selection 8.2 (3)\tx",
		"selection 8.2 (4)\tx",
		"= sanity-lnet 2\tPeers",
		"sanity-lnet 2 (3)\tx",
		"sanity-lnet 2 (99a)\tx",
		"sanity-lnet 2 (40)\tx",
	}, "\n"))
	if err != nil || len(sections) != 3 {
		t.Errorf("%d sections, %v", len(sections), err)
	}
}
