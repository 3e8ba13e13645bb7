package metrics

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/exporter-toolkit/web"
	"go.yaml.in/yaml/v3"

	"github.com/lnetd/lnetd/lnd/boundedlog"
)

// serveGuarded makes s serve l with the TLS settings and passwords of the file webConfig.
func serveGuarded(l net.Listener, s *http.Server, webConfig string, log *slog.Logger) error {
	limits := new(bounds)
	if b, ok := s.Handler.(*bounded); ok { // the limits must also apply to the password check
		limits, s.Handler = &b.bounds, b.next
	}
	told := boundedlog.New(log)
	defer told.End()
	complaints := slog.New(toolkitLog{told.With("address", l.Addr().String())})
	s.ErrorLog = slog.NewLogLogger(serverLog{told.Handler(), told, webConfig}, slog.LevelDebug)
	return web.Serve(&admitting{Listener: l, server: s, bounds: limits}, s, &web.FlagConfig{WebConfigFile: &webConfig}, complaints)
}

// admitting is a listener that makes the limits on scrapes apply before passwords are checked, because the
// check takes much CPU time. The toolkit wraps the server's handler in the check before it calls Accept, so
// the first call of Accept can wrap the result in the limits.
type admitting struct {
	net.Listener
	server *http.Server
	bounds *bounds
	once   sync.Once
}

// Accept implements net.Listener.
func (a *admitting) Accept() (net.Conn, error) {
	a.once.Do(func() { a.server.Handler = a.bounds.admit(a.server.Handler) })
	return a.Listener.Accept()
}

// webConfigFiles holds the parts of a web_config file that CheckWebConfig reads.
type webConfigFiles struct {
	TLS struct {
		Cert       string `yaml:"cert"`
		CertFile   string `yaml:"cert_file"`
		ClientCA   string `yaml:"client_ca"`
		ClientCAs  string `yaml:"client_ca_file"`
		ClientAuth string `yaml:"client_auth_type"`
	} `yaml:"tls_server_config"`
	Users map[string]string `yaml:"basic_auth_users"`
}

// CheckWebConfig validates a web_config file and the certificates that it names. It returns an error if the
// file is invalid. The warnings are about certificates that are not valid at the time now, and about
// passwords without TLS.
func CheckWebConfig(path string, now time.Time) (warnings []string, _ error) {
	err := web.Validate(path)
	switch {
	case err == nil:
	case strings.Contains(err.Error(), "bcrypt"):
		return nil, fmt.Errorf("%s: basic_auth_users: passwords must be bcrypt hashes, such as those of htpasswd -B: %w", path, err)
	default:
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var f webConfigFiles
	if err := yaml.Unmarshal(b, &f); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	bad := func(err error) error { return fmt.Errorf("%s: %w", path, err) }
	own, err := certificates(path, f.TLS.Cert, f.TLS.CertFile)
	if err != nil {
		return nil, bad(err)
	}
	authorities, err := certificates(path, f.TLS.ClientCA, f.TLS.ClientCAs)
	if err != nil {
		return nil, bad(err)
	}
	if len(authorities) == 0 && (f.TLS.ClientCA != "" || f.TLS.ClientCAs != "") {
		return nil, bad(errors.New("client_ca contains no certificate, so every client would be refused"))
	}
	if len(own) > 1 {
		own = own[:1] // the others are those of intermediate authorities
	}
	for _, c := range append(own, authorities...) {
		switch {
		case now.After(c.NotAfter):
			warnings = append(warnings, fmt.Sprintf("the certificate of %s has expired on %s", c.Subject, c.NotAfter.UTC().Format(time.DateTime)))
		case now.Before(c.NotBefore):
			warnings = append(warnings, fmt.Sprintf("the certificate of %s is not valid before %s", c.Subject, c.NotBefore.UTC().Format(time.DateTime)))
		}
	}
	if len(f.Users) > 0 && len(own) == 0 {
		warnings = append(warnings, "passwords are sent unencrypted, because the file has no tls_server_config")
	}
	return warnings, nil
}

// certificates parses the PEM certificates in text or, if file is not empty, in that file. A relative name
// of the file is relative to the directory of the file webConfig.
func certificates(webConfig, text, file string) (list []*x509.Certificate, _ error) {
	rest := []byte(text)
	if file != "" {
		if !filepath.IsAbs(file) {
			file = filepath.Join(filepath.Dir(webConfig), file)
		}
		b, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		rest = b
	}
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return list, nil
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		list = append(list, c)
	}
}

// toolkitLog is the log handler for the toolkit that serves TLS and checks passwords. It drops the toolkit's
// messages at startup, and limits messages that clients can cause to one line a minute.
type toolkitLog struct{ *boundedlog.Log }

// Enabled implements slog.Handler.
func (h toolkitLog) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= slog.LevelWarn && h.Handler().Enabled(ctx, l)
}

// Handle implements slog.Handler.
func (h toolkitLog) Handle(_ context.Context, r slog.Record) error {
	attrs := []slog.Attr{slog.String("problem", r.Message)}
	r.Attrs(func(a slog.Attr) bool {
		attrs = append(attrs, a)
		return true
	})
	h.Report(boundedlog.Line{Level: slog.LevelWarn, Text: "a metrics request failed"}, attrs...)
	return nil
}

// WithAttrs implements slog.Handler.
func (h toolkitLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	args := make([]any, len(attrs))
	for k, a := range attrs {
		args[k] = a
	}
	return toolkitLog{h.With(args...)}
}

// WithGroup implements slog.Handler. The toolkit uses no groups.
func (h toolkitLog) WithGroup(string) slog.Handler { return h }

// serverLog is the log handler for the HTTP server. If a TLS handshake fails, it checks the web_config file
// and logs an error in it. The toolkit does not report that it cannot read a TLS file, such as a renewed key
// that only root may read: handshakes only fail, as they also do because of faulty clients.
type serverLog struct {
	slog.Handler
	warned    *boundedlog.Log
	webConfig string
}

// Enabled implements slog.Handler.
func (serverLog) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements slog.Handler.
func (h serverLog) Handle(ctx context.Context, r slog.Record) error {
	if strings.Contains(r.Message, "TLS handshake error") {
		if _, err := CheckWebConfig(h.webConfig, r.Time); err != nil {
			h.warned.Report(boundedlog.Line{Level: slog.LevelError, Text: "metrics requests are refused until the web_config file is corrected"},
				slog.Any("err", err))
		}
	}
	if !h.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}
