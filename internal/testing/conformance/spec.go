package conformance

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// specDir is the directory of the specification.
const specDir = "docs/spec"

// Spec is the set of section numbers of each text of the specification, by the name of the text.
type Spec map[string]map[string]bool

var (
	headingForm   = regexp.MustCompile(`^#+ (?:Part )?([0-9]+(?:\.[0-9]+)*|[A-Z](?:\.[0-9]+)+|[A-Z]\b\.)\.? `)
	paragraphForm = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)+) `)
)

// ReadSpec reads the section numbers of all texts in docs/spec of a module.
func ReadSpec(module fs.FS) (Spec, error) {
	files, err := fs.Glob(module, specDir+"/*.md")
	if err != nil {
		return nil, err
	}
	spec := Spec{}
	for _, file := range files {
		text, err := fs.ReadFile(module, file)
		if err != nil {
			return nil, err
		}
		if name := strings.TrimSuffix(path.Base(file), ".md"); name != "README" {
			spec[name] = sectionsOf(string(text))
		}
	}
	if len(spec) == 0 {
		return nil, fmt.Errorf("no texts in %s", specDir)
	}
	return spec, nil
}

// sectionsOf returns the section numbers in a text. A section starts with a numbered heading, or with a
// paragraph that begins with a number. Such a number must continue the current chapter: it is one more
// than the previous number. Otherwise the number is part of the prose ("2.15 adds kfi").
func sectionsOf(text string) map[string]bool {
	sections := map[string]bool{}
	chapter, last := "", 0
	for line := range strings.Lines(text) {
		if form := headingForm.FindStringSubmatch(line); form != nil {
			chapter, last = strings.TrimSuffix(form[1], "."), 0
			sections[chapter] = true
			continue
		}
		form := paragraphForm.FindStringSubmatch(line)
		if form == nil || chapter == "" {
			continue
		}
		if rest, ok := strings.CutPrefix(form[1], chapter+"."); ok && rest == strconv.Itoa(last+1) {
			last++
			sections[form[1]] = true
		}
	}
	return sections
}
