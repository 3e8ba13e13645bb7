package conformance

import (
	"fmt"
	"go/scanner"
	"go/token"
	"io/fs"
	"iter"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

// A Citation is a reference to a section of the specification.
type Citation struct {
	File          string // path from the module's root, with slashes
	Line          int
	Text, Section string // "lnet-core", "7.3"; Text is empty if the citation does not name it
}

// String returns the citation, preceded by its file and line.
func (c Citation) String() string {
	return fmt.Sprintf("%s:%d: %s", c.File, c.Line, strings.TrimSpace(c.Text+" "+c.Section))
}

// citations finds citations in prose.
type citations struct {
	texts []string
	named *regexp.Regexp // "lnet-core 5.3, 6.1": the text, the sections
	bare  *regexp.Regexp // a section without a text
}

const (
	number = `[0-9]+(?:\.[0-9]+)*[a-z]?\b`
	// Text that may stand between a section and the next one of the same text: the list and number of a
	// rule, a step, "and".
	rule = `(?:\s+(?:step|item|row)s?\s+[0-9]+[a-z]?\b|(?:\s+[a-z]+)?\s+\([0-9]+[a-z]?\)(?:-\([0-9]+\))?)?`
	next = `(?:,|\s+to|\s+and|,\s+and)\s+(?:§)?`
)

var (
	numberForm = regexp.MustCompile(number)
	ruleForm   = regexp.MustCompile(`(?:step|item|row)s?\s+[0-9]+[a-z]?|\([0-9]+[a-z]?\)`)
)

func citationsOf(spec Spec) citations {
	texts := slices.Sorted(maps.Keys(spec))
	slices.Reverse(texts) // transport-tests before transport
	return citations{
		texts: texts,
		named: regexp.MustCompile(`(?:^|[^-/\w])(` + strings.Join(texts, "|") + `)(?:\.md)?,?\s+(?:section\s+|§)?` +
			`(` + number + rule + `(?:` + next + number + rule + `)*)`),
		bare: regexp.MustCompile(`(?:[Ss]ections?\s+|§)(` + number + `(?:` + next + number + `)*)`),
	}
}

// in returns the citations in prose. A citation without a text gets the text own, which may be empty.
func (f citations) in(file, prose, own string) []Citation {
	var found []Citation
	line := 1
	for paragraph := range paragraphs(prose) {
		if f.mayBeIn(paragraph) {
			found = f.inParagraph(found, Citation{File: file, Line: line, Text: own}, paragraph)
		}
		line += strings.Count(paragraph, "\n")
	}
	return found
}

// paragraphs yields the paragraphs of prose. A blank line ends a paragraph.
func paragraphs(prose string) iter.Seq[string] {
	return func(yield func(string) bool) {
		from, to := 0, 0
		for line := range strings.Lines(prose) {
			to += len(line)
			if strings.TrimSpace(line) == "" {
				if !yield(prose[from:to]) {
					return
				}
				from = to
			}
		}
		yield(prose[from:])
	}
}

// mayBeIn reports whether a paragraph contains one of the words that every citation has. It is much
// faster than the regular expressions.
func (f citations) mayBeIn(paragraph string) bool {
	return strings.Contains(paragraph, "§") || strings.Contains(paragraph, "ection") ||
		slices.ContainsFunc(f.texts, func(text string) bool { return strings.Contains(paragraph, text) })
}

// inParagraph appends the citations in a paragraph to found. first is the position of the paragraph and
// the text of citations that do not name one.
func (f citations) inParagraph(found []Citation, first Citation, paragraph string) []Citation {
	add := func(text string, from, to int) {
		part := ruleForm.ReplaceAllStringFunc(paragraph[from:to], blank)
		for _, at := range numberForm.FindAllStringIndex(part, -1) {
			line := first.Line + strings.Count(paragraph[:from+at[0]], "\n")
			found = append(found, Citation{first.File, line, text, strings.TrimRight(part[at[0]:at[1]], "abcdefgh")})
		}
	}
	rest := []byte(paragraph)
	for _, at := range f.named.FindAllStringSubmatchIndex(paragraph, -1) {
		add(paragraph[at[2]:at[3]], at[4], at[5])
		copy(rest[at[0]:at[1]], blank(paragraph[at[0]:at[1]]))
	}
	for _, at := range f.bare.FindAllStringSubmatchIndex(string(rest), -1) {
		add(first.Text, at[2], at[3])
	}
	return found
}

// Citations returns all citations of the specification in a module, sorted by file. It reads the comments
// of Go files and scripts, the rules of this package, and Markdown.
func Citations(module fs.FS, spec Spec) ([]Citation, error) {
	forms := citationsOf(spec)
	var found []Citation
	err := fs.WalkDir(module, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if base := path.Base(name); name != "." && (base[0] == '.' || name == "bin") {
				return fs.SkipDir
			}
			return nil
		}
		prose := proseOf(name)
		if prose == nil {
			return nil
		}
		text, err := fs.ReadFile(module, name)
		if err != nil {
			return err
		}
		own := strings.TrimSuffix(path.Base(name), ".md")
		if path.Dir(name) != specDir || spec[own] == nil {
			own = ""
		}
		found = append(found, forms.in(name, prose(string(text)), own)...)
		return nil
	})
	return found, err
}

// proseOf returns the function that extracts the prose of a file and blanks the rest. It returns nil for
// files that do not cite the specification.
func proseOf(name string) func(text string) string {
	switch {
	case path.Ext(name) == ".go":
		return goComments
	case path.Ext(name) == ".md":
		return markdownProse
	case strings.Contains(name, "/testdata/script"):
		return hashComments
	case strings.HasPrefix(name, "internal/testing/conformance/rules/"):
		return func(text string) string { return text }
	}
	return nil
}

// goComments returns a Go file with everything blanked but the comments' text.
func goComments(source string) string {
	prose := []byte(blank(source))
	files := token.NewFileSet()
	file := files.AddFile("", files.Base(), len(source))
	var s scanner.Scanner
	s.Init(file, []byte(source), func(token.Position, string) {}, scanner.ScanComments)
	for {
		pos, tok, _ := s.Scan()
		if tok == token.EOF {
			return string(prose)
		}
		if tok != token.COMMENT {
			continue
		}
		// A literal leaves out carriage returns, so use the offsets in the source.
		from := file.Offset(pos)
		to := len(source)
		if strings.HasPrefix(source[from:], "/*") {
			to = from + strings.Index(source[from:], "*/")
		} else if k := strings.IndexByte(source[from:], '\n'); k >= 0 {
			to = from + k
		}
		copy(prose[from+2:to], source[from+2:to])
	}
}

// hashComments returns a script with everything blanked but the comments' text.
func hashComments(text string) string {
	var prose strings.Builder
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, "#"); ok {
			prose.WriteString(" " + rest)
		} else {
			prose.WriteString(blank(line))
		}
	}
	return prose.String()
}

var (
	fenceForm = regexp.MustCompile("(?s)\n *```.*?\n *```")
	codeForm  = regexp.MustCompile("`[^`\\n]*(?:\\n[^`\\n]+)?`")
	fileForm  = regexp.MustCompile("^`[a-z-]+\\.md`$")
)

// markdownProse blanks the code in Markdown. Of `FILE.md` in backquotes it blanks only the backquotes.
func markdownProse(text string) string {
	text = fenceForm.ReplaceAllStringFunc(text, blank)
	return codeForm.ReplaceAllStringFunc(text, func(code string) string {
		if fileForm.MatchString(code) {
			return " " + strings.Trim(code, "`") + " "
		}
		return blank(code)
	})
}

// blank returns s with blanks in place of everything but line ends.
func blank(s string) string {
	b := []byte(s)
	for k := range b {
		if b[k] != '\n' {
			b[k] = ' '
		}
	}
	return string(b)
}
