package conformance

import (
	"embed"
	"fmt"
	"regexp"
	"strings"
)

// rules has the rules that tests must cover, one file for each document.
//
// A section begins with a line "= DOCUMENT SECTION", TAB, title. Each other line is a rule: its ID, TAB,
// and its subject. If no test covers the rule, another TAB and the reason follow. The reason begins with
// a category and a colon:
//
//	internal	how another implementation works inside, or what cannot be seen
//	commands	a command that lnetdctl does not have, or its text, not the engine's
//
// The ID is the document, the section, the name of a list if the section has several, and the number in
// the list. For a requirement of Motr's designs, or of LNet over MPI, it is the requirement's name.
// Bullets and rows are numbered in their order. In sanity-lnet.txt and transport-tests.txt the numbers are those of the test
// cases.
//
//go:embed rules/*.txt
var rules embed.FS

// A Section is one section of the specification, with its rules.
type Section struct {
	ID    string // document and number: "lnet-core 4.2"
	Title string
	Rules []Rule
}

// A Rule is one statement of the specification. It has a test, or a reason for having no test.
type Rule struct {
	ID     string // section, list, number: "lnet-core 2.2 attach (1)"
	Title  string
	Reason string // why no test covers the rule; empty if one does
	id     ruleID
}

// ruleID is the parsed ID of a rule.
type ruleID struct {
	section string // with its document: "lnet-core 4.2"
	list    string // empty if the section has only one list, or for the rule that is the section itself
	number  int    // 0 if the rule has no number
	letter  string // of a rule that is part of a numbered one, such as "a" in (3a)
}

// follows reports whether a rule with ID p may stand directly after a rule with ID q. It returns false
// if a number between both is missing, because a rule was probably removed by accident. A section may
// continue the numbers of the previous section in the same chapter.
func (p ruleID) follows(q ruleID) bool {
	switch {
	case p.document() == suites || p.document() == behaviours:
		return true
	case p.section != q.section && p.chapter() != "" && p.chapter() == q.chapter() &&
		p.list == "" && q.list == "" && q.number != 0 && p.number == q.number+1:
		return true
	case p.section != q.section:
		q = ruleID{}
	}
	switch {
	case p.number == 0 || p.list != q.list:
		return p.number <= 1 && p.letter <= "a"
	case p.letter > "a":
		return p.number == q.number && q.letter != "" && p.letter[0] == q.letter[0]+1
	}
	return p.number == q.number+1
}

func (p ruleID) document() string { return documentOf(p.section) }

func (s Section) document() string { return documentOf(s.ID) }

// documentOf returns the first word of the ID of a section or rule.
func documentOf(id string) string {
	d, _, _ := strings.Cut(id, " ")
	return d
}

// chapter returns the section that contains this one: "selection 8" for "selection 8.2". It returns ""
// for a top-level section.
func (p ruleID) chapter() string {
	if k := strings.LastIndexByte(p.section, '.'); k >= 0 {
		return p.section[:k]
	}
	return ""
}

// Rules returns the sections of all documents with their rules. It returns an error if a file is
// malformed.
func Rules() ([]Section, error) {
	var all []Section
	for _, document := range documents {
		name := "rules/" + document + ".txt"
		text, err := rules.ReadFile(name)
		if err != nil {
			return nil, err
		}
		sections, err := parseRules(name, string(text))
		if err != nil {
			return nil, err
		}
		all = append(all, sections...)
	}
	return all, nil
}

var (
	sectionForm = regexp.MustCompile(`^(` + strings.Join(documents, "|") + `) ([0-9]+(\.[0-9]+)*|[A-Z](\.[0-9]+)?)$`)
	reasonForm  = regexp.MustCompile(`^(internal|commands): .`)
)

func parseRules(name, text string) ([]Section, error) {
	var sections []Section
	var last ruleID
	seen := map[string]bool{}
	for k, line := range strings.Split(text, "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fail := func(format string, args ...any) ([]Section, error) {
			return nil, fmt.Errorf("%s:%d: %w", name, k+1, fmt.Errorf(format, args...))
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
		if !at.follows(last) {
			return fail("rule %q: a number before it is missing", id)
		}
		last = at
		if reason != "" && !reasonForm.MatchString(reason) {
			return fail("rule %q: reason %q has no kind", id, reason)
		}
		current.Rules = append(current.Rules, Rule{ID: id, Title: title, Reason: reason, id: at})
	}
	return sections, nil
}

// parseID parses the ID of a rule, which must be in the given section.
func parseID(section, id string) (ruleID, error) {
	if requirementForm.MatchString(id) {
		return ruleID{section: section, list: id}, nil
	}
	rest, ok := strings.CutPrefix(id, section)
	if !ok {
		return ruleID{}, fmt.Errorf("in section %q", section)
	}
	document := documentOf(section)
	it, err := parseItem(document, strings.TrimPrefix(id, document+" "))
	if err != nil {
		return ruleID{}, err
	}
	if it.section != section || it.last != it.first {
		return ruleID{}, fmt.Errorf("%q after the section", rest)
	}
	return ruleID{section: section, list: it.list, number: it.first, letter: it.letter}, nil
}
