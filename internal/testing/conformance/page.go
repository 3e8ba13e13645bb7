package conformance

import (
	"fmt"
	"strings"
)

// Page returns a Markdown page with each rule and the tests that cover it, which are in shown by the ID
// of the rule. Its links are right in a directory directly below the module's root, such as bin.
func Page(sections []Section, shown map[string][]Test) []byte {
	var b strings.Builder
	b.WriteString(`# Which test shows which rule

Each numbered rule of [the specification](../docs/spec/README.md), and each section without numbers, with
the tests that cover it, or the reason why no test does. Tests name the rules in
comments; ` + "`go doc ./internal/testing/conformance`" + ` says how. This page is made by
` + "`make conformance`" + `, and the tests fail if a rule has neither test nor reason.

| document | rules | with tests | with a reason | with neither |
|---|---|---|---|---|
`)
	for _, document := range documents {
		var c count
		for _, s := range sections {
			if s.document() == document {
				c.add(s.Rules, shown)
			}
		}
		fmt.Fprintf(&b, "| %s | %d | %d | %d | %d |\n", document, c.rules, c.tested, c.reasoned, c.rules-c.tested-c.reasoned)
	}
	suitesBegun := false
	for _, s := range sections {
		heading := "rule | about"
		if s.document() == suites {
			heading = "case | what is done, and expected"
			if !suitesBegun {
				suitesBegun = true
				b.WriteString(`
# Which test shows which behaviour

The cases of the reference's regression suites, by their numbers there. Ours are
other tests: they show the same behaviour, mostly without a network.
`)
			}
		}
		fmt.Fprintf(&b, "\n## %s: %s\n\n| %s | shown by |\n|---|---|---|\n", s.ID, cell(s.Title), heading)
		for _, r := range s.Rules {
			fmt.Fprintf(&b, "| %s | %s | %s |\n",
				strings.ReplaceAll(strings.TrimPrefix(r.ID, s.document()+" "), " ", "\u00a0"), cell(r.Title), coverage(r, shown[r.ID]))
		}
	}
	return []byte(b.String())
}

// count counts rules: all of them, those with a test, and those that have a reason instead of a test.
type count struct{ rules, tested, reasoned int }

func (c *count) add(rules []Rule, shown map[string][]Test) {
	for _, r := range rules {
		c.rules++
		switch {
		case len(shown[r.ID]) > 0:
			c.tested++
		case r.Reason != "":
			c.reasoned++
		}
	}
}

// coverage returns the text for the column beside a rule: links to its tests, or its reason.
func coverage(r Rule, tests []Test) string {
	switch {
	case len(tests) > 0:
		var links []string
		for _, t := range tests {
			links = append(links, fmt.Sprintf("[%s](../%s)", t, t.File))
		}
		return strings.Join(links, ", ")
	case r.Reason != "":
		return "*" + cell(r.Reason) + "*"
	}
	return "**neither test nor reason**"
}

func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
