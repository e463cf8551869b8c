package collect

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/api"
	"go.yaml.in/yaml/v3"
	"golang.org/x/net/http/httpguts"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/transport"
)

// A Server may be queried. Objects name it; only the administrator sets its address and the
// credentials of this program.
type Server struct {
	Name string `yaml:"name"`
	// URL of its API without /api/v1, in http or https, without a user.
	URL string `yaml:"url"`
	// BearerTokenFile is read again every minute.
	BearerTokenFile string `yaml:"bearerTokenFile"`
	Basic           *Basic `yaml:"basic"`
	TLS             *TLS   `yaml:"tls"`
	// Headers of every request, such as Mimir's X-Scope-OrgID.
	Headers map[string]string `yaml:"headers"`
	// Match has matchers of labels for the history of use, such as cluster="a" where the server
	// has several clusters.
	Match string `yaml:"match"`
}

// Basic is a user with a password. The file is read for every request.
type Basic struct {
	Username     string `yaml:"username"`
	PasswordFile string `yaml:"passwordFile"`
}

// TLS names PEM files, which are read again when they change. Without CAFile the system's
// authorities count.
type TLS struct {
	CAFile     string `yaml:"caFile"`
	CertFile   string `yaml:"certFile"`
	KeyFile    string `yaml:"keyFile"`
	ServerName string `yaml:"serverName"`
}

// ReadServers reads the list of the servers that may be asked. An error names the file, and
// the line or the field.
func ReadServers(path string) ([]Server, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	decoder := yaml.NewDecoder(f)
	decoder.KnownFields(true)
	var list struct {
		Servers []Server `yaml:"servers"`
	}
	switch err := decoder.Decode(&list); {
	case errors.Is(err, io.EOF) || err == nil && list.Servers == nil:
		return nil, fmt.Errorf("%s: servers is missing; [] is a list without servers", path)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := decoder.Decode(&struct{}{}); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: more than one YAML document", path)
	}
	names := map[string]bool{}
	for i := range list.Servers {
		s := &list.Servers[i]
		err := s.check()
		if err == nil && names[s.Name] {
			err = errors.New("name: another server has it")
		}
		if err != nil {
			return nil, fmt.Errorf("%s: servers[%d] %q: %w", path, i, s.Name, err)
		}
		names[s.Name] = true
	}
	return list.Servers, nil
}

func (s *Server) check() error {
	if wrong := validation.IsDNS1123Label(s.Name); len(wrong) > 0 {
		return fmt.Errorf("name: %s", wrong[0])
	}
	u, err := url.Parse(s.URL)
	switch {
	case err != nil: // its text would repeat a password
		return errors.New("url: not a URL")
	case u.User != nil:
		return errors.New("url: a user does not belong there: use basic or bearerTokenFile")
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return errors.New("url: want http://host or https://host, with a port and a path where there are any")
	case u.RawQuery != "" || u.Fragment != "":
		return errors.New("url: a query or a fragment does not belong there")
	case s.Basic != nil && s.BearerTokenFile != "":
		return errors.New("basic, bearerTokenFile: want one of them")
	case s.Basic != nil && (s.Basic.Username == "" || s.Basic.PasswordFile == ""):
		return errors.New("basic: want username and passwordFile")
	case s.TLS != nil && u.Scheme != "https":
		return errors.New("tls: the url is not https")
	case s.TLS != nil && (s.TLS.CertFile == "") != (s.TLS.KeyFile == ""):
		return errors.New("tls: want certFile and keyFile, or neither")
	}
	for _, name := range slices.Sorted(maps.Keys(s.Headers)) {
		switch {
		case !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(s.Headers[name]):
			return fmt.Errorf("headers: %q or its value cannot be in a request", name)
		case slices.Contains([]string{"Authorization", "Host"}, http.CanonicalHeaderKey(name)):
			return fmt.Errorf("headers: %s does not belong there: use basic, bearerTokenFile or url", name)
		}
	}
	return nil
}

// readFiles reads the server's files once; an error names the field.
func (s *Server) readFiles() error {
	files := map[string]string{"bearerTokenFile": s.BearerTokenFile}
	if s.Basic != nil {
		files["basic.passwordFile"] = s.Basic.PasswordFile
	}
	if s.TLS != nil {
		files["tls.caFile"], files["tls.certFile"], files["tls.keyFile"] = s.TLS.CAFile, s.TLS.CertFile, s.TLS.KeyFile
	}
	for _, field := range slices.Sorted(maps.Keys(files)) {
		if files[field] == "" {
			continue
		}
		text, err := os.ReadFile(files[field])
		if err == nil && field == "tls.caFile" && !x509.NewCertPool().AppendCertsFromPEM(text) {
			err = fmt.Errorf("%s: no certificate in PEM", files[field])
		}
		if err != nil {
			return fmt.Errorf("%s: %w", field, err)
		}
	}
	return nil
}

// open reads the server's files and returns its API.
func (s *Server) open() (*server, error) {
	// Because of the protocols, the transport is not http.DefaultTransport.
	c := &transport.Config{UserAgent: "sigma-mpa", BearerTokenFile: s.BearerTokenFile, TLS: transport.TLSConfig{NextProtos: []string{"h2", "http/1.1"}}}
	if t := s.TLS; t != nil {
		c.TLS.CAFile, c.TLS.CertFile, c.TLS.KeyFile, c.TLS.ServerName = t.CAFile, t.CertFile, t.KeyFile, t.ServerName
		c.TLS.ReloadCAFiles, c.TLS.ReloadTLSFiles = true, true
	}
	if err := s.readFiles(); err != nil {
		return nil, err
	}
	through, err := transport.New(c)
	if err != nil {
		return nil, err
	}
	to, err := api.NewClient(api.Config{Address: s.URL})
	if err != nil {
		return nil, err
	}
	return &server{Server: s, urls: to, http: &http.Client{
		Transport: identified{through, s},
		// Another address would get the credentials, and an object the answer of a server
		// that only this program reaches.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

func (b *Basic) password() (string, error) {
	text, err := os.ReadFile(b.PasswordFile)
	return strings.TrimSpace(string(text)), err
}

// identified adds the credentials and headers that the transport of client-go lacks.
type identified struct {
	http.RoundTripper
	*Server
}

func (i identified) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for name, value := range i.Headers {
		r.Header.Set(name, value)
	}
	if i.Basic != nil {
		password, err := i.Basic.password()
		if err != nil {
			return nil, err
		}
		r.SetBasicAuth(i.Basic.Username, password)
	}
	return i.RoundTripper.RoundTrip(r)
}
