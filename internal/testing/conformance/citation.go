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

// A Citation is a place in the module that refers to a section of the specification.
type Citation struct {
	File          string // path relative to the module's root, with slashes
	Line          int
	Text, Section string // such as "lnet-core" and "7.3"; Text is empty if it is not known which text is cited
}

// String returns file, line, text and section.
func (c Citation) String() string {
	return fmt.Sprintf("%s:%d: %s", c.File, c.Line, strings.TrimSpace(c.Text+" "+c.Section))
}

// citations finds citations in prose with regular expressions.
type citations struct {
	texts []string
	named *regexp.Regexp // a text and sections, such as "lnet-core 5.3, 6.1"
	bare  *regexp.Regexp // the word "section" or "§" and numbers, without a text
}

const (
	number = `[0-9]+(?:\.[0-9]+)*[a-z]?\b`
	// rule and next match what may stand between two sections of the same text: the number of a rule or
	// step, and a comma or "and".
	rule = `(?:\s+(?:step|item|row)s?\s+[0-9]+[a-z]?\b|(?:\s+[a-z]+)?\s+\([0-9]+[a-z]?\)(?:-\([0-9]+\))?)?`
	next = `(?:,|\s+to|\s+and|,\s+and)\s+(?:§)?`
)

var (
	numberForm = regexp.MustCompile(number)
	ruleForm   = regexp.MustCompile(`(?:step|item|row)s?\s+[0-9]+[a-z]?|\([0-9]+[a-z]?\)`)
)

func citationsOf(spec Spec) citations {
	texts := slices.Sorted(maps.Keys(spec))
	slices.Reverse(texts) // so that transport-tests is tried before transport
	return citations{
		texts: texts,
		named: regexp.MustCompile(`(?:^|[^-/\w])(` + strings.Join(texts, "|") + `)(?:\.md)?,?\s+(?:section\s+|§)?` +
			`(` + number + rule + `(?:` + next + number + rule + `)*)`),
		bare: regexp.MustCompile(`(?:[Ss]ections?\s+|§)(` + number + `(?:` + next + number + `)*)`),
	}
}

// in returns the citations in the prose of a file. A citation that names no text gets the text own,
// which may be empty.
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

// paragraphs yields the paragraphs of prose. A paragraph ends with a blank line.
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

// mayBeIn returns false if a paragraph cannot have a citation, because it lacks the words that all
// citations have. It is much faster than the regular expressions.
func (f citations) mayBeIn(paragraph string) bool {
	return strings.Contains(paragraph, "§") || strings.Contains(paragraph, "ection") ||
		slices.ContainsFunc(f.texts, func(text string) bool { return strings.Contains(paragraph, text) })
}

// inParagraph appends the citations in a paragraph to found. first has the file and line of the
// paragraph, and the text for citations that name none.
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

// Citations returns all citations of the specification in a module, in the order of files. It reads the
// comments of Go files and scripts, the rules of this package, and Markdown files.
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

// proseOf returns a function for the prose of the file with the given name: it replaces all other bytes
// of the file's text by blanks. It returns nil for files in which citations are not looked for.
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

// goComments returns the text of a Go file with everything except comments replaced by blanks.
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
		// The literal that Scan returns has no carriage returns, so use offsets in the source.
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

// hashComments returns the text of a script with everything except comments replaced by blanks.
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

// markdownProse returns Markdown with code replaced by blanks. A file name `FILE.md` in backquotes
// stays, without the backquotes.
func markdownProse(text string) string {
	text = fenceForm.ReplaceAllStringFunc(text, blank)
	return codeForm.ReplaceAllStringFunc(text, func(code string) string {
		if fileForm.MatchString(code) {
			return " " + strings.Trim(code, "`") + " "
		}
		return blank(code)
	})
}

// blank returns s with each byte except line ends replaced by a blank.
func blank(s string) string {
	b := []byte(s)
	for k := range b {
		if b[k] != '\n' {
			b[k] = ' '
		}
	}
	return string(b)
}
