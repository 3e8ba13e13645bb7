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

// Links checks the links in the Markdown files of a module's root directory and of docs that lead to
// files of the module. The file must exist, and must have the heading that the link names, if any. Links
// returns the number of good links, an error for each bad link, and an error if it could not read the
// files.
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
				continue // a URL outside of the module
			}
			if err := checkTarget(module, anchors, name, to); err != nil {
				bad = append(bad, fmt.Errorf("%s:%d: link to %s: %w", name, 1+strings.Count(prose[:at[2]], "\n"), to, err))
				continue
			}
			good++
		}
		return nil
	})
	return good, bad, err
}

// checkTarget returns an error if the target to of a link in the file from does not exist. anchors
// caches the anchors by file.
func checkTarget(module fs.FS, anchors map[string]map[string]bool, from, to string) error {
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

// anchorsOf returns the anchors of all headings in a Markdown text.
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

// anchorOf returns the anchor that GitHub gives to a heading: in lower case, with hyphens instead of
// blanks, and without punctuation.
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
