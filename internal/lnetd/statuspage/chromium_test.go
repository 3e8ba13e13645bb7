package statuspage

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lnetd/lnetd/internal/testing/testenv"
)

// browserTimeout is the time limit for everything that a test does with a browser.
const browserTimeout = 3 * time.Minute

// chromiumFlags make Chromium run without a display, without requests to other hosts, and as root.
var chromiumFlags = []string{
	"--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-extensions",
	"--disable-background-networking", "--disable-component-update", "--disable-default-apps", "--disable-sync",
	"--disable-breakpad", "--hide-scrollbars", "--force-color-profile=srgb", "--mute-audio", "--no-proxy-server",
}

// browser is a Chromium that a test controls with the DevTools protocol over pipes.
type browser struct {
	t   *testing.T
	ctx context.Context
	to  io.Writer

	mu      sync.Mutex // guards what follows
	last    int
	calls   map[int]chan<- message
	loaded  map[string]bool // the loads that have ended, by their IDs
	loads   chan struct{}   // receives a value when a load has ended
	errors  []string        // errors that pages have reported
	session string
}

// message is a request, a response or an event of the protocol.
type message struct {
	ID      int             `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Session string          `json:"sessionId,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   json.RawMessage `json:"error,omitempty"`
}

// chromium returns the command that runs Chromium with more arguments. The end of the test kills it.
func chromium(ctx context.Context, t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	testenv.NeedCommand(t, "chromium", "chromium")
	home, err := os.MkdirTemp("", "chromium")
	if err != nil {
		t.Fatal(err)
	}
	// Helper processes may still write to it for a moment.
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	cmd := exec.CommandContext(ctx, "chromium", append(append([]string{"--user-data-dir=" + home}, chromiumFlags...), args...)...)
	cmd.Env = append(os.Environ(), "HOME="+home, "TMPDIR="+home, "DBUS_SESSION_BUS_ADDRESS=disabled:")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // with its helper processes
	return cmd
}

// startBrowser starts Chromium with an empty page.
func startBrowser(t *testing.T) *browser {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), browserTimeout)
	cmd := chromium(ctx, t, "--remote-debugging-pipe", "about:blank")
	theirs, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	from, theirOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.ExtraFiles = []*os.File{theirs, theirOut}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_, _ = theirs.Close(), theirOut.Close()
	b := &browser{t: t, ctx: ctx, to: to, calls: map[int]chan<- message{}, loaded: map[string]bool{}, loads: make(chan struct{}, 1)}
	read := make(chan struct{})
	go func() { defer close(read); b.read(from) }()
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // it was killed
		<-read
		_, _ = to.Close(), from.Close()
	})
	var target struct{ TargetID string }
	b.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	b.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	b.session = attached.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log", "Accessibility"} {
		b.call(domain+".enable", nil, nil)
	}
	b.call("Page.setLifecycleEventsEnabled", map[string]any{"enabled": true}, nil)
	return b
}

// read passes responses to the callers that wait for them, until Chromium ends.
func (b *browser) read(from io.Reader) {
	r := bufio.NewReader(from)
	for {
		text, err := r.ReadBytes(0)
		if err != nil {
			return
		}
		var m message
		if json.Unmarshal(text[:len(text)-1], &m) != nil {
			continue
		}
		b.mu.Lock()
		switch m.Method {
		case "":
			if answered := b.calls[m.ID]; answered != nil {
				answered <- m
				delete(b.calls, m.ID)
			}
		case "Page.lifecycleEvent":
			var event struct{ LoaderID, Name string }
			if json.Unmarshal(m.Params, &event) != nil || event.Name != "load" {
				break
			}
			b.loaded[event.LoaderID] = true
			select {
			case b.loads <- struct{}{}:
			default:
			}
		case "Log.entryAdded", "Runtime.exceptionThrown":
			b.errors = append(b.errors, string(m.Params))
		}
		b.mu.Unlock()
	}
}

// call calls a method of the protocol and stores its result, unless result is nil.
func (b *browser) call(method string, params map[string]any, result any) {
	b.t.Helper()
	answered := make(chan message, 1)
	b.mu.Lock()
	b.last++
	id := b.last
	b.calls[id] = answered
	b.mu.Unlock()
	if params == nil {
		params = map[string]any{}
	}
	text, err := json.Marshal(params)
	if err != nil {
		b.t.Fatal(err)
	}
	request, err := json.Marshal(message{ID: id, Method: method, Params: text, Session: b.session})
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.to.Write(append(request, 0)); err != nil {
		b.t.Fatal(err)
	}
	select {
	case m := <-answered:
		if m.Error != nil {
			b.t.Fatalf("%s: %s", method, m.Error)
		}
		if result != nil {
			if err := json.Unmarshal(m.Result, result); err != nil {
				b.t.Fatalf("%s: %v", method, err)
			}
		}
	case <-b.ctx.Done():
		b.t.Fatalf("%s: Chromium does not answer", method)
	}
}

// open loads a page.
func (b *browser) open(url string) {
	b.t.Helper()
	var load struct{ LoaderID, ErrorText string }
	b.call("Page.navigate", map[string]any{"url": url}, &load)
	if load.ErrorText != "" {
		b.t.Fatalf("%s: %s", url, load.ErrorText)
	}
	for !b.hasLoaded(load.LoaderID) { // the events of an earlier load may still arrive
		select {
		case <-b.loads:
		case <-b.ctx.Done():
			b.t.Fatalf("%s does not load", url)
		}
	}
}

func (b *browser) hasLoaded(id string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.loaded[id]
}

// evaluate stores the value of an expression in JavaScript, or of the promise that it returns.
func (b *browser) evaluate(expression string, value any) {
	b.t.Helper()
	var got struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails json.RawMessage
	}
	b.call("Runtime.evaluate", map[string]any{"expression": expression, "awaitPromise": true, "returnByValue": true}, &got)
	if got.ExceptionDetails != nil {
		b.t.Fatalf("%.200s: %s", expression, got.ExceptionDetails)
	}
	if value == nil {
		return
	}
	if err := json.Unmarshal(got.Result.Value, value); err != nil {
		b.t.Fatalf("%.200s: %v", expression, err)
	}
}

// colours makes pages prefer "light" or "dark" colours.
func (b *browser) colours(scheme string) {
	b.t.Helper()
	b.call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
}

// screenshot returns the page as PNG, from the top to height pixels or its end.
func (b *browser) screenshot(width, height int) []byte {
	b.t.Helper()
	var whole int
	b.evaluate("document.documentElement.scrollHeight", &whole)
	clip := map[string]int{"x": 0, "y": 0, "width": width, "height": min(height, whole), "scale": 1}
	var got struct{ Data []byte }
	b.call("Page.captureScreenshot", map[string]any{"format": "png", "captureBeyondViewport": true, "clip": clip}, &got)
	return got.Data
}

// press presses a key.
func (b *browser) press(key string, code int) {
	b.t.Helper()
	for _, kind := range []string{"rawKeyDown", "keyUp"} {
		b.call("Input.dispatchKeyEvent", map[string]any{"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code}, nil)
	}
}

// reported returns the errors that pages have reported.
func (b *browser) reported() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.errors
}

// withoutScripts makes pages that are loaded from now on run no scripts.
func (b *browser) withoutScripts() {
	b.t.Helper()
	b.call("Emulation.setScriptExecutionDisabled", map[string]any{"value": true}, nil)
}

// document returns the HTML of the document as it is now.
func (b *browser) document() string {
	b.t.Helper()
	var document struct{ Root struct{ NodeID int } }
	b.call("DOM.getDocument", nil, &document)
	var got struct{ OuterHTML string }
	b.call("DOM.getOuterHTML", map[string]any{"nodeId": document.Root.NodeID}, &got)
	return got.OuterHTML
}

// axNode is a node of the accessibility tree.
type axNode struct {
	Ignored    bool
	Role, Name struct{ Value any }
}

func (n *axNode) role() string { return fmt.Sprint(n.Role.Value) }

func (n *axNode) name() string {
	if n.Name.Value == nil {
		return ""
	}
	return strings.TrimSpace(fmt.Sprint(n.Name.Value))
}

// accessibility returns the nodes of the accessibility tree that screen readers see.
func (b *browser) accessibility() (nodes []axNode) {
	b.t.Helper()
	var got struct{ Nodes []axNode }
	b.call("Accessibility.getFullAXTree", nil, &got)
	for _, n := range got.Nodes {
		if !n.Ignored {
			nodes = append(nodes, n)
		}
	}
	return nodes
}
