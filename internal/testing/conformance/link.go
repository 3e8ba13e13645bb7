package conformance

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
	"unicode"
)

var (
	linkForm  = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	titleForm = regexp.MustCompile(`^#+ +(.*?) *#*$`)
)

// Links checks the links between a module's Markdown files, in its root directory and below docs. The
// file must exist, and the heading too if the link names one. It returns the number of good links and an
// error for each other one.
func Links(module fs.FS) (good int, bad []error, err error) {
	anchors := map[string]map[string]bool{}
	err = fs.WalkDir(module, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && name != "docs" && !strings.HasPrefix(name, "docs/"):
			return fs.SkipDir
		case d.IsDir() || path.Ext(name) != ".md":
			return nil
		}
		text, err := fs.ReadFile(module, name)
		if err != nil {
			return err
		}
		prose := markdownProse(string(text))
		for _, at := range linkForm.FindAllStringSubmatchIndex(prose, -1) {
			to := prose[at[2]:at[3]]
			if strings.Contains(to, ":") {
				continue // outside of the module
			}
			if err := follow(module, anchors, name, to); err != nil {
				bad = append(bad, fmt.Errorf("%s:%d: link to %s: %w", name, 1+strings.Count(prose[:at[2]], "\n"), to, err))
				continue
			}
			good++
		}
		return nil
	})
	return good, bad, err
}

// follow checks the target of a link in the file from.
func follow(module fs.FS, anchors map[string]map[string]bool, from, to string) error {
	file, anchor, named := strings.Cut(to, "#")
	target := from
	if file != "" {
		target = path.Join(path.Dir(from), file)
	}
	if _, err := fs.Stat(module, target); err != nil {
		return fmt.Errorf("no file %s", target)
	}
	if !named {
		return nil
	}
	if anchors[target] == nil {
		text, err := fs.ReadFile(module, target)
		if err != nil {
			return err
		}
		anchors[target] = anchorsOf(string(text))
	}
	if !anchors[target][anchor] {
		return fmt.Errorf("%s has no such heading", target)
	}
	return nil
}

// anchorsOf returns the anchors of the headings in a text.
func anchorsOf(text string) map[string]bool {
	anchors := map[string]bool{}
	for line := range strings.Lines(fenceForm.ReplaceAllStringFunc(text, blank)) {
		form := titleForm.FindStringSubmatch(strings.TrimRight(line, "\n"))
		if form == nil {
			continue
		}
		name := anchorOf(form[1])
		for k := 1; anchors[name]; k++ {
			name = fmt.Sprintf("%s-%d", anchorOf(form[1]), k)
		}
		anchors[name] = true
	}
	return anchors
}

// anchorOf returns the anchor of a heading as GitHub forms it: lower case, hyphens for blanks, no
// punctuation.
func anchorOf(title string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, title)
}
