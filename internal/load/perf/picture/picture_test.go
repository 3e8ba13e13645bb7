package picture

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lnetd/lnetd/internal/testing/pages"
)

var update = flag.Bool("update", false, "write docs/performance and its page anew")

// committed is the directory with results and the pictures of them, beside the page that has their tables.
const committed = "../../../../docs/performance"

// readFile reads a file with results.
func readFile(t *testing.T, path string) *Results {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Read(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// The pictures in docs/performance are those of the results beside them.
func TestCommittedPictures(t *testing.T) {
	files, err := filepath.Glob(committed + "/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		r := readFile(t, file)
		name := strings.TrimSuffix(file, ".json")
		for path, write := range map[string]func(io.Writer) error{name + ".svg": r.WriteFigures, name + "-latency.svg": r.WriteLatencies} {
			var b bytes.Buffer
			if err := write(&b); err != nil {
				t.Fatal(err)
			}
			checkSVG(t, path, b.Bytes())
			if *update {
				if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if old, err := os.ReadFile(path); err != nil || !bytes.Equal(old, b.Bytes()) {
				t.Errorf("%s is not the picture of %s; make pictures writes it (%v)", path, file, err)
			}
		}
	}
}

// The tables in docs/performance.md are those of the results.
func TestCommittedTables(t *testing.T) {
	const page = committed + ".md"
	old, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	tables := map[string]string{}
	for _, name := range []string{"compare.json", "hosted.json"} {
		var table strings.Builder
		if err := readFile(t, filepath.Join(committed, name)).WriteTable(&table); err != nil {
			t.Fatal(err)
		}
		tables[name] = "\n" + table.String() + "\n"
	}
	text, err := pages.WithParts(string(old), "pictures", tables)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(page, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if text != string(old) {
		t.Errorf("%s has other tables than the results; make pictures writes them", page)
	}
}

// checkSVG checks that a picture is well-formed, has a title and a description, and refers to nothing outside.
func checkSVG(t *testing.T, path string, text []byte) {
	t.Helper()
	seen := map[string]int{}
	for d := xml.NewDecoder(bytes.NewReader(text)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		e, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		seen[e.Name.Local]++
		for _, a := range e.Attr {
			if a.Name.Local == "href" || a.Name.Local == "src" {
				t.Errorf("%s refers to %s", path, a.Value)
			}
		}
	}
	if seen["title"] == 0 || seen["desc"] != 1 || seen["svg"] != 1 {
		t.Errorf("%s has the elements %v", path, seen)
	}
	if bytes.Contains(text, []byte("NaN")) || bytes.Contains(text, []byte("-922337")) {
		t.Errorf("%s has a number that is none", path)
	}
}

// Files that are no results are refused, and the error says what is wrong.
func TestReadRefuses(t *testing.T) {
	for text, want := range map[string]string{
		``:                           "EOF",
		`[]`:                         "cannot unmarshal",
		`{"cases": []}`:              "no cases",
		`{"cases": [3]}`:             "cannot unmarshal",
		`{"cases": [{}]}`:            "case 1 (\"\") is not complete",
		`{"cases": [{"case": "a"}]}`: `case 1 ("a") is not complete`,
		`{"cases": [{"case": "a", "unit": "km", "plain_is": "copy"}]}`:                                       `case 1 ("a") is not complete`,
		`{"cases": [{"case": "a", "unit": "us", "plain_is": "copy"}, {"unit": "us"}]}`:                       `case 2 ("") is not complete`,
		`{"cases": [{"case": "a", "unit": "us", "plain_is": "copy"}, {"case": "b", "unit": 3}]}`:             "case 2: ",
		`{"against": "nagle=1", "cases": [{"case": "a", "unit": "us", "without": {}, "verdict": "better"}]}`: `case 1 ("a") is not complete`,
	} {
		if _, err := Read(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// Results whose figures are all 0, and names with markup, make pictures too.
func TestStrangeResults(t *testing.T) {
	r, err := Read(strings.NewReader(`{"cases": [{"case": "a<b & \"c\"", "unit": "us", "plain_is": "copy", "goal": 2,
		"plain": {"median": 5, "q3": 6}, "plain_latency": {"p50_us": 0, "max_us": 0}}, {"case": "d", "unit": "1/s", "plain_is": "copy"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if !r.HasLatencies() {
		t.Error("it has no latencies")
	}
	for _, write := range []func(io.Writer) error{r.WriteFigures, r.WriteLatencies} {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		checkSVG(t, "a picture", b.Bytes())
	}
}
