package conformance

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// item is one item of a tag: the rules of a section that it names.
type item struct {
	section     string // with its document
	list        string
	first, last int    // 0 if the item has no number
	letter      string // set only if first == last
}

// Documents in which numbers may be missing, because they are the numbers of test cases in the
// reference's regression suites (suites) and of behaviours of transfer machines (behaviours).
const (
	suites     = "sanity-lnet"
	behaviours = "transport-tests"
)

// documents lists the documents that have rules.
var documents = []string{
	"lnet-core", "lnet-wire", "socklnd", "o2iblnd", "discovery", "selection", "selftest", "lnetctl", "transport", behaviours, "mpilnd", suites,
}

var (
	tagForm  = regexp.MustCompile(`^(` + strings.Join(documents, "|") + `) ([0-9A-Z].*)$`)
	itemForm = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)*|[A-Z])(?: ([a-z]+))?(?: \(([0-9]+)([a-z])?\)(?:-\(([0-9]+)\))?)?$`)
)

// parseTag returns the items of a comment line if the line is a tag. Otherwise it returns nil.
func parseTag(line string) ([]item, error) {
	form := tagForm.FindStringSubmatch(strings.TrimSpace(line))
	if form == nil {
		return nil, nil
	}
	var items []item
	for text := range strings.SplitSeq(form[2], ",") {
		it, err := parseItem(form[1], strings.TrimSpace(text))
		if err != nil {
			return nil, err
		}
		items = append(items, it)
	}
	return items, nil
}

// requirementForm matches the name of a requirement of Motr's designs, such as r.m0.net, in upper or lower
// case (transport 1), or of LNet over MPI, such as UP-5. The name is the ID of the rule.
var requirementForm = regexp.MustCompile(`^([iIrR]\.[a-zA-Z0-9.-]+|(MPI|MT|PT|UP)-[0-9]+)$`)

// requirements returns the IDs of the rules that a comment line names if the line consists of names of
// requirements. Otherwise it returns nil.
func requirements(sections []Section, line string) (ids []string, err error) {
	for name := range strings.SplitSeq(line, ",") {
		name = strings.TrimSpace(name)
		if !requirementForm.MatchString(name) {
			return nil, nil
		}
		id, unknown := requirement(sections, name)
		ids, err = append(ids, id), cmp.Or(err, unknown)
	}
	return ids, err
}

// requirement returns the ID of the rule for the requirement with the given name.
func requirement(sections []Section, name string) (string, error) {
	for _, s := range sections {
		for _, r := range s.Rules {
			if strings.EqualFold(r.ID, name) {
				return r.ID, nil
			}
		}
	}
	return "", fmt.Errorf("%s: no such requirement", name)
}

// tagged returns the IDs of the rules that a comment line names if the line is a tag. Otherwise it
// returns nil.
func tagged(sections []Section, line string) ([]string, error) {
	ids, err := requirements(sections, line)
	if ids != nil {
		return ids, err
	}
	items, err := parseTag(line)
	for _, it := range items {
		named, notNamed := resolve(sections, it)
		ids, err = append(ids, named...), cmp.Or(err, notNamed)
	}
	return ids, err
}

func parseItem(document, text string) (item, error) {
	form := itemForm.FindStringSubmatch(text)
	if form == nil {
		return item{}, fmt.Errorf("%q is not of the form SECTION [LIST] [(N)[-(M)]]", text)
	}
	it := item{section: document + " " + form[1], list: form[2], letter: form[4]}
	if form[3] != "" {
		first, err := strconv.Atoi(form[3])
		if err != nil || first == 0 {
			return item{}, fmt.Errorf("%q: no such number", text)
		}
		it.first, it.last = first, first
	}
	if form[5] != "" {
		last, err := strconv.Atoi(form[5])
		if err != nil || last <= it.first || it.letter != "" {
			return item{}, fmt.Errorf("%q: no such range", text)
		}
		it.last = last
	}
	return it, nil
}

// matches reports whether the item includes the rule with ID p.
func (it item) matches(p ruleID) bool {
	return it.section == p.section && it.list == p.list && it.first <= p.number && p.number <= it.last &&
		(it.letter == "" || it.letter == p.letter)
}

// resolve returns the IDs of the rules that an item includes. It returns an error if a number of the
// item is the number of no rule.
func resolve(sections []Section, it item) ([]string, error) {
	var ids []string
	numbers := map[int]bool{}
	for _, s := range sections {
		for _, r := range s.Rules {
			if it.matches(r.id) {
				ids = append(ids, r.ID)
				numbers[r.id.number] = true
			}
		}
	}
	if len(numbers) != it.last-it.first+1 {
		return nil, fmt.Errorf("%s: no such rule", it)
	}
	return ids, nil
}

// String returns the item as it is written in a tag.
func (it item) String() string {
	s := it.section
	if it.list != "" {
		s += " " + it.list
	}
	if it.first != 0 {
		s += fmt.Sprintf(" (%d%s)", it.first, it.letter)
	}
	if it.last != it.first {
		s += fmt.Sprintf("-(%d)", it.last)
	}
	return s
}
