package conformance

import (
	_ "embed" // rules.txt
	"fmt"
	"regexp"
	"strings"
)

//go:embed rules.txt
var rulesText string

// A Section is one of the specification's, with its rules.
type Section struct {
	ID    string // document and number: "lnet-core 4.2"
	Title string
	Rules []Rule
}

// A Rule is what the specification says in one place. It has a test, or a
// reason why there is none.
type Rule struct {
	ID     string // section, list, number: "lnet-core 2.2 attach (1)"
	Title  string
	Reason string // why no test shows it; mostly empty
	place  place
}

// place is an ID taken apart.
type place struct {
	section string // with its document
	list    string // empty: the section has one, or this is the section's own rule
	number  int    // 0: none
	letter  string // of a rule within a numbered one: "a"
}

// follows tells whether a rule at p may come right after one at q, as far as
// numbers go: a rule that was taken out must not go unnoticed.
func (p place) follows(q place) bool {
	switch {
	case p.number == 0 || p.list != q.list:
		return p.number <= 1 && p.letter <= "a"
	case p.letter > "a":
		return p.number == q.number && q.letter != "" && p.letter[0] == q.letter[0]+1
	}
	return p.number == q.number+1
}

// Rules returns the sections of rules.txt.
func Rules() ([]Section, error) { return parseRules(rulesText) }

var (
	sectionForm = regexp.MustCompile(`^[a-z-]+ [0-9]+(\.[0-9]+)*$`)
	reasonForm  = regexp.MustCompile(`^(internal|routing|discovery|selection|commands): .`)
)

func parseRules(text string) ([]Section, error) {
	var sections []Section
	seen := map[string]bool{}
	for k, line := range strings.Split(text, "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fail := func(format string, args ...any) ([]Section, error) {
			return nil, fmt.Errorf("rules.txt:%d: %w", k+1, fmt.Errorf(format, args...))
		}
		id, rest, _ := strings.Cut(line, "\t")
		title, reason, _ := strings.Cut(rest, "\t")
		if title == "" {
			return fail("%q has no title", id)
		}
		if seen[id] {
			return fail("%q stands here twice", id)
		}
		seen[id] = true
		if s, ok := strings.CutPrefix(id, "= "); ok {
			if !sectionForm.MatchString(s) {
				return fail("section %q: not a document and a number", s)
			}
			sections = append(sections, Section{ID: s, Title: title})
			continue
		}
		if len(sections) == 0 {
			return fail("rule %q stands before the first section", id)
		}
		current := &sections[len(sections)-1]
		at, err := parseID(current.ID, id)
		if err != nil {
			return fail("rule %q: %w", id, err)
		}
		var last place
		if n := len(current.Rules); n > 0 {
			last = current.Rules[n-1].place
		}
		if !at.follows(last) {
			return fail("rule %q: a number before it is missing", id)
		}
		if reason != "" && !reasonForm.MatchString(reason) {
			return fail("rule %q: reason %q has no kind", id, reason)
		}
		current.Rules = append(current.Rules, Rule{ID: id, Title: title, Reason: reason, place: at})
	}
	return sections, nil
}

// parseID takes the id of a rule in a section apart.
func parseID(section, id string) (place, error) {
	rest, ok := strings.CutPrefix(id, section)
	if !ok {
		return place{}, fmt.Errorf("in section %q", section)
	}
	document, _, _ := strings.Cut(section, " ")
	it, err := parseItem(document, strings.TrimPrefix(id, document+" "))
	if err != nil {
		return place{}, err
	}
	if it.section != section || it.last != it.first {
		return place{}, fmt.Errorf("%q after the section", rest)
	}
	return place{section: section, list: it.list, number: it.first, letter: it.letter}, nil
}
