package conformance

import (
	"fmt"
	"path"
	"strings"
)

// Page returns docs/conformance.md: each rule with the tests that show it.
// Links are those of a file in the directory docs.
func Page(sections []Section, shown map[string][]Test) []byte {
	var b strings.Builder
	rules, tested, reasoned := 0, 0, 0
	for _, s := range sections {
		for _, r := range s.Rules {
			rules++
			switch {
			case len(shown[r.ID]) > 0:
				tested++
			case r.Reason != "":
				reasoned++
			}
		}
	}
	b.WriteString(`# Which test shows which rule

Each numbered rule of the specification's chapters on objects, events,
matching, receiving, sending and credits, and each section on counters, faults,
lifecycle and health, with the tests that show it or the reason why there is
none. Tests name the rules in comments; ` + "`go doc ./internal/conformance`" + ` says
how. This page is made by ` + "`make conformance`" + `, and the tests fail if it is stale
or if a rule has neither test nor reason.

`)
	fmt.Fprintf(&b, "%d rules: %d with tests, %d with a reason, %d with neither.\n",
		rules, tested, reasoned, rules-tested-reasoned)
	for _, s := range sections {
		fmt.Fprintf(&b, "\n## %s: %s\n\n| rule | about | shown by |\n|---|---|---|\n", s.ID, cell(s.Title))
		document, _, _ := strings.Cut(s.ID, " ")
		for _, r := range s.Rules {
			fmt.Fprintf(&b, "| %s | %s | %s |\n",
				strings.ReplaceAll(strings.TrimPrefix(r.ID, document+" "), " ", "\u00a0"), cell(r.Title), proof(r, shown[r.ID]))
		}
	}
	return []byte(b.String())
}

// proof is what the page says beside a rule.
func proof(r Rule, tests []Test) string {
	if len(tests) == 0 {
		return "*" + cell(r.Reason) + "*"
	}
	var links []string
	for _, t := range tests {
		links = append(links, fmt.Sprintf("[%s.%s](../%s)", path.Base(path.Dir(t.File)), t.Name, t.File))
	}
	return strings.Join(links, ", ")
}

func cell(s string) string {
	if s == "" {
		return "none"
	}
	return strings.ReplaceAll(s, "|", `\|`)
}
