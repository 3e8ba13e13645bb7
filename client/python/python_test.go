package python

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/testing/testenv"
	"github.com/lnetd/lnetd/internal/testing/tmpeer"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/inproc"
	"github.com/lnetd/lnetd/transport/mem"
)

// library is the directory with liblnetd, which is compiled once.
var library string

var compile = sync.OnceValue(func() error {
	var err error
	if library, err = os.MkdirTemp("", "liblnetd"); err != nil {
		return err
	}
	if out, err := exec.Command("../c/build", library).CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
})

func TestMain(m *testing.M) {
	status := m.Run()
	if library != "" {
		_ = os.RemoveAll(library) // created by MkdirTemp
	}
	os.Exit(status)
}

// program is a program in Python. Each warning is printed.
type program struct {
	*exec.Cmd
	out, complaints bytes.Buffer
}

func python(t *testing.T, arguments ...string) *program {
	t.Helper()
	testenv.NeedCommand(t, "python3", "python3")
	testenv.NeedCommand(t, "gcc", "gcc")
	if err := compile(); err != nil {
		t.Fatal(err)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*tmpeer.Patience)
	t.Cleanup(cancel)
	p := &program{Cmd: exec.CommandContext(ctx, "python3", slices.Concat([]string{"-B", "-X", "dev"}, arguments)...)}
	p.Env = append(os.Environ(), "LD_LIBRARY_PATH="+library, "PYTHONPATH="+here)
	p.Stdout, p.Stderr = &p.out, &p.complaints
	return p
}

// mustPrint runs a program that must succeed, and returns what it prints.
func (p *program) mustPrint(t *testing.T) string {
	t.Helper()
	if err := p.Run(); err != nil || p.complaints.Len() > 0 {
		t.Fatalf("%v: %v\n%s%s", p.Args, err, &p.out, &p.complaints)
	}
	return p.out.String()
}

func mustNID(t *testing.T, s string) lnet.NID {
	t.Helper()
	nid, err := lnet.ParseNID(s)
	if err != nil {
		t.Fatal(err)
	}
	return nid
}

// A program in Python exchanges messages, and bulk in both directions, with a peer in Go. It also makes mistakes,
// cancels operations, waits in the ways of Python, and leaves nothing behind.
//
// transport 9.1, 9.2, 9.4
func TestConversation(t *testing.T) {
	network := mem.New(mem.Config{})
	home, away, large := mustNID(t, "10.0.0.1@tcp"), mustNID(t, "10.0.0.2@tcp"), mustNID(t, "2001:db8::10@tcp2")
	for _, c := range []struct {
		name string
		core transport.Core
		nid  lnet.NID
		peer transport.Core // nil: core
	}{
		{name: "another host", core: network.Host(home), nid: away, peer: network.Host(away)},
		{name: "node with a large NID", core: inproc.New(tmpeer.StartNode(t, large)), nid: large},
	} {
		t.Run(c.name, func(t *testing.T) {
			server, path := tmpeer.Serve(t, c.core)
			if c.peer == nil {
				c.peer = c.core
			}
			p := tmpeer.New(t, c.peer, c.nid)
			if got := python(t, "testdata/conversation.py", path, p.Address).mustPrint(t); got != "ok\n" {
				t.Errorf("it prints %q", got)
			}
			p.Stop()
			tmpeer.Eventually(t, "nobody is left", func() bool { return len(server.Clients()) == 0 })
		})
	}
}

// The structures and constants of the package are those of lnetd.h.
func TestLayout(t *testing.T) {
	source := filepath.Join(t.TempDir(), "layout.c")
	if err := os.WriteFile(source, []byte(python(t, "testdata/layout.py").mustPrint(t)), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("gcc", "-std=c11", "-fsyntax-only", "-Wall", "-Werror", "-I"+library, source).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// ctypesOf are the types of ctypes by those of C.
var ctypesOf = map[string]string{
	"void": "None", "int": "c_int", "unsigned": "c_uint", "uint32_t": "c_uint", "uint64_t": "c_ulong", "size_t": "c_ulong",
	"const char *": "c_char_p", "char *": "c_char_p", "uint64_t *": "LP_c_ulong", "void *": "c_void_p",
	"lnetd *": "c_void_p", "lnetd_tm *": "c_void_p", "lnetd_buf *": "c_void_p", "const lnetd *": "c_void_p", "const lnetd_tm *": "c_void_p",
	"lnetd **": "LP_c_void_p", "lnetd_tm **": "LP_c_void_p", "lnetd_buf **": "LP_c_void_p",
	"struct lnetd_nid *": "LP_Nid", "const struct lnetd_nid *": "LP_Nid", "struct lnetd_addr *": "LP_Addr", "const struct lnetd_addr *": "LP_Addr",
	"struct lnetd_limits *": "LP_Limits", "struct lnetd_desc *": "LP_Desc", "struct lnetd_event *": "LP_Event", "const struct iovec *": "LP_Iovec",
	"const void *": "c_char_p", // a descriptor
}

var (
	prototype = regexp.MustCompile(`(?s)\nLNETD_API (\w[^(]*?\*?)(lnetd_\w+)\((.*?)\);`)
	parameter = regexp.MustCompile(`^\s*(.*?)(\w+)$`)
)

// The functions that the package calls have the types of lnetd.h.
func TestPrototypes(t *testing.T) {
	header, err := os.ReadFile("../c/src/lnetd.h")
	if err != nil {
		t.Fatal(err)
	}
	declared := map[string]string{}
	for _, m := range prototype.FindAllStringSubmatch(string(header), -1) {
		types := []string{m[2], ctypesOf[strings.TrimSpace(m[1])]}
		for p := range strings.SplitSeq(m[3], ",") {
			if p != "void" {
				types = append(types, ctypesOf[strings.TrimSpace(parameter.ReplaceAllString(p, "$1"))])
			}
		}
		declared[m[2]] = strings.Join(types, " ")
	}
	for line := range strings.Lines(python(t, "testdata/layout.py", "prototypes").mustPrint(t)) {
		name, _, _ := strings.Cut(line, " ")
		if diff := cmp.Diff(declared[name], strings.TrimSpace(line)); diff != "" {
			t.Errorf("lnetd.h (-), Python (+):\n%s", diff)
		}
	}
}

// Without lnetd, or without the library, the reason is said.
func TestReasons(t *testing.T) {
	for _, c := range []struct{ name, code, want string }{
		{"no lnetd", `lnetd.Connection("/nonexistent/lnetd.sock")`, "lnetd.errors.LnetdError: [Errno 2] "},
		{"path too long", `lnetd.Connection("/" + "x" * 200)`, "lnetd.errors.LnetdError: [Errno "},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := python(t, "-c", "import lnetd; "+c.code)
			if err := p.Run(); err == nil || !strings.Contains(p.complaints.String(), c.want) {
				t.Errorf("%v\n%s", err, &p.complaints)
			}
		})
	}
	t.Run("no library", func(t *testing.T) {
		p := python(t, "-c", "import lnetd")
		p.Env = append(p.Env, "LD_LIBRARY_PATH=/nonexistent")
		const want = "ImportError: liblnetd.so.0 cannot be used: "
		if err := p.Run(); err == nil || !strings.Contains(p.complaints.String(), want) {
			t.Errorf("%v, want %q\n%s", err, want, &p.complaints)
		}
	})
}
