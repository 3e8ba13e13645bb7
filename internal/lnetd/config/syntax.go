package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

// sectionsMax is the maximum number of sections that are removed from a document because they are not
// valid YAML, so that the rest can be checked. Each removal requires the document to be read again.
const sectionsMax = 32

// documents parses a file and returns its YAML documents. It reports what is not valid YAML. After a
// mistake it continues with the other sections to find further ones, so problems may be reported even if
// it returns documents.
func (r *reading) documents(data []byte) []*yaml.Node {
	if len(data) > api.DocumentMax {
		appendProblem(&r.problems, &Problem{File: r.name, Text: fmt.Sprintf("more than %d bytes", api.DocumentMax), Remedy: "split it"})
		return nil
	}
	if p := r.measureAll(data); p != nil {
		appendProblem(&r.problems, p)
		return nil
	}
	if len(data) > r.wholeMax {
		rest, lists := cutLongLists(data, r.pieceSize)
		docs := r.parse(rest, lists)
		if len(r.problems) > 0 || r.attachLists(docs, lists) {
			return docs
		}
	}
	return r.parse(data, nil)
}

// parse does what documents does for data from which the given lists have been cut out.
func (r *reading) parse(data []byte, lists map[int]*longList) []*yaml.Node {
	size, emptied := len(data), 0
	for _, l := range lists {
		size, emptied = size+len(l.text), emptied+l.lines
	}
	if p := r.measure(data, emptied); p != nil {
		appendProblem(&r.problems, p)
		return nil
	}
	for range min(sectionsMax, 1+diagnosisMax/(1+size)) {
		p := r.nested(data)
		if p == nil {
			docs, err := r.decode(data)
			switch {
			case r.ctx.Err() != nil:
				return nil
			case err == nil:
				return r.checkAliases(docs)
			}
			p = r.diagnose(string(data), err)
		}
		r.problems = append(r.problems, p)
		rest, ok := withoutSection(data, p.Line)
		if !ok {
			break
		}
		data = rest
	}
	return nil
}

// checkAliases returns docs. If values are nested too deeply or aliases stand for too many values, it
// reports a problem and returns nil.
func (r *reading) checkAliases(docs []*yaml.Node) []*yaml.Node {
	u := aliasCounter{sizes: map[*yaml.Node]int{}}
	for _, doc := range docs {
		if at := findDeeper(doc, depthMax); at != nil {
			appendProblem(&r.problems, r.tooDeep(at.Line, at.Column))
			return nil
		}
		if at := u.firstExcess(doc); at != nil {
			place{file: r, node: at}.problemf("the aliases expand to more than %d values", aliasedMax).remedyf("write the content of '*%s' in full", at.Value)
			return nil
		}
	}
	return docs
}

// aliasCounter counts the values that YAML aliases stand for.
type aliasCounter struct {
	sizes   map[*yaml.Node]int // sizes of values with aliases expanded; 0 while a value is being counted
	aliased int                // number of values that all aliases so far stand for
}

// firstExcess adds the values that the aliases within n stand for to u.aliased. It returns the alias with
// which their number exceeds aliasedMax, or nil.
func (u *aliasCounter) firstExcess(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		if u.aliased += u.size(n); u.aliased > aliasedMax {
			return n
		}
	}
	for _, below := range n.Content {
		if at := u.firstExcess(below); at != nil {
			return at
		}
	}
	return nil
}

// size returns the number of values that n consists of if its aliases are expanded. It returns more than
// aliasedMax if n contains an alias of itself.
func (u *aliasCounter) size(n *yaml.Node) int {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	size, known := u.sizes[n]
	switch {
	case known && size == 0:
		return aliasedMax + 1
	case known:
		return size
	}
	u.sizes[n] = 0
	size = min(1+len(n.Value)/aliasedText, aliasedMax+1)
	for _, below := range n.Content {
		size = min(size+u.size(below), aliasedMax+1)
	}
	u.sizes[n] = size
	return size
}

// decode parses YAML. It fails if r.ctx is done.
func (r *reading) decode(data []byte) (docs []*yaml.Node, _ error) {
	d := yaml.NewDecoder(ctxReader{r.ctx, bytes.NewReader(data)})
	for {
		var doc yaml.Node
		err := d.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return docs, nil
		}
		if err != nil {
			return nil, err
		}
		if len(doc.Content) > 0 {
			docs = append(docs, doc.Content[0])
		}
	}
}

// withoutSection returns a copy of the document in which all lines of one section are empty: the section
// that contains the given line. It returns false if they were empty before, so that the copy would not
// differ.
func withoutSection(data []byte, line int) ([]byte, bool) {
	lines := bytes.SplitAfter(data, []byte("\n"))
	if line < 1 || line > len(lines) {
		return nil, false
	}
	from, to := line-1, line
	for from > 0 && !startsSection(lines[from]) {
		from--
	}
	for to < len(lines) && !startsSection(lines[to]) {
		to++
	}
	emptied := false
	for k := from; k < to; k++ {
		emptied = emptied || len(bytes.TrimSpace(lines[k])) > 0
		lines[k] = lines[k][len(bytes.TrimRight(lines[k], "\r\n")):]
	}
	return bytes.Join(lines, nil), emptied
}

// startsSection reports whether a section begins at a line, because it begins with a key that is not
// indented, or separates documents.
func startsSection(line []byte) bool {
	return len(line) > 0 && !bytes.ContainsAny(line[:1], " \t\r\n#-]}") || bytes.HasPrefix(line, []byte("---"))
}

// diagnose returns a problem that explains why a text is not valid YAML. The argument err is the error of
// the YAML library. The problem has the position if it can be found.
func (r *reading) diagnose(text string, err error) *Problem {
	p := &Problem{File: r.name}
	if p.Line, p.Column = badByte(text); p.Line > 0 {
		p.Text, p.Remedy = "the file contains a byte that is not text", "save the file as UTF-8, without control characters"
		return p
	}
	if s := findSyntaxProblem(text, r.sections()); s != nil {
		p.Line, p.Column, p.Text, p.Remedy = s.line, s.column, s.text, s.remedy
		return p
	}
	said := strings.TrimPrefix(err.Error(), "yaml: ")
	if m := yamlAnchor.FindStringSubmatch(said); m != nil {
		if before, _, ok := strings.Cut(text, "*"+m[1]); ok {
			p.Line = 1 + strings.Count(before, "\n")
			p.Column = len(before) - strings.LastIndexByte(before, '\n')
		}
		p.Text = fmt.Sprintf("the alias '*%s' refers to the anchor '&%s', which does not exist", m[1], m[1])
		p.Remedy = "put quotes around a value that begins with '*'"
		return p
	}
	if m := yamlLine.FindStringSubmatch(said); m != nil {
		p.Line, _ = strconv.Atoi(m[1])
		said = m[2]
	} else {
		p.Line = r.lineOf(text, err)
	}
	p.Text = "this is not valid YAML: " + said
	p.Remedy = "check the indentation, colons, quotes and brackets in this line and its neighbours"
	return p
}

// lineOf returns the number of the line that causes the error err: the text up to this line gives the
// error, and the text before does not. It returns 0 if the text is too long to be parsed repeatedly.
func (r *reading) lineOf(text string, err error) int {
	if len(text) > diagnosisMax/sectionsMax {
		return 0
	}
	lines := strings.SplitAfter(text, "\n")
	return 1 + sort.Search(len(lines)-1, func(k int) bool {
		_, now := r.decode([]byte(strings.Join(lines[:k+1], "")))
		return now != nil && now.Error() == err.Error()
	})
}

var (
	yamlLine   = regexp.MustCompile(`^line (\d+): (.*)$`)
	yamlAnchor = regexp.MustCompile(`^unknown anchor '(.*)' referenced$`)
)

// badByte returns the position of the first byte that is not allowed in YAML, or line 0 if all are
// allowed. It does not check UTF-16, which the decoder does.
func badByte(text string) (line, column int) {
	if strings.HasPrefix(text, "\xff\xfe") || strings.HasPrefix(text, "\xfe\xff") {
		return 0, 0
	}
	line = 1
	start := 0
	for k, c := range text {
		_, size := utf8.DecodeRuneInString(text[k:])
		switch {
		case c == utf8.RuneError && size <= 1, c < ' ' && c != '\n' && c != '\t' && c != '\r', c == 0x7f:
			return line, 1 + k - start
		case c == '\n':
			line++
			start = k + 1
		}
	}
	return 0, 0
}
