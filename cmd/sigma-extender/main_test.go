package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/internal/serve/page"
)

func TestFlags(t *testing.T) {
	const plain = "--bind-address=127.0.0.1:1"
	tests := []struct{ args, want string }{
		{plain, ""},
		{"--bind-address=localhost:1", ""},
		{"--bind-address=[::1]:1", ""},
		{"--tls-cert-file=c --tls-private-key-file=k", "--bind-address :8443 without --client-ca-file: beyond loopback only callers with a certificate are served"},
		{plain + " --tls-cert-file=c --tls-private-key-file=k", ""},
		{plain + " --metrics-plain-http", "--metrics-bind-address :8080 with --metrics-plain-http: only a loopback address is served in plain HTTP"},
		{plain + " --metrics-plain-http --metrics-bind-address=127.0.0.1:2", ""},
		{plain + " --metrics-bind-address=8080", `--metrics-bind-address "8080": want host:port or :port`},
		{"--tls-cert-file=c --tls-private-key-file=k --client-ca-file=a --bind-address=:8443", ""},
		{plain + " --canary-policy-name=next --fleet=fixed --deadline=10ms --forecast-max-age=1m --assume-ttl=1s --max-request-bytes=1 -v=2 --app-label=app", ""},
		{"", "--bind-address :8443 without --tls-cert-file: only a loopback address is served in plain HTTP"},
		{"--bind-address=0.0.0.0:1", "--bind-address 0.0.0.0:1 without --tls-cert-file"},
		{"--bind-address=10.1.2.3:1", "--bind-address 10.1.2.3:1 without --tls-cert-file"},
		{"--bind-address=localhost.example.com:1", "without --tls-cert-file"},
		{"--bind-address=127.0.0.1", "without --tls-cert-file"},
		{plain + " --tls-cert-file=c", "--tls-cert-file and --tls-private-key-file need each other"},
		{plain + " --tls-private-key-file=k", "--tls-cert-file and --tls-private-key-file need each other"},
		{plain + " --client-ca-file=a", "--client-ca-file needs --tls-cert-file"},
		{plain + " --policy-name=", "--policy-name is empty"},
		{plain + " --canary-policy-name=general", `--canary-policy-name "general" is the --policy-name too`},
		{plain + " --fleet=huge", `--fleet "huge": want open or fixed`},
		{plain + " --deadline=-1s", "--deadline -1s: want 0 or more"},
		{plain + " --forecast-max-age=0s", "--forecast-max-age 0s: want more than 0"},
		{plain + " --assume-ttl=0s", "--assume-ttl 0s: want more than 0"},
		{plain + " --decision-log-bytes=1Gi --decision-log-files=0", ""},
		{plain + " --decision-log-bytes=0", ""},
		{plain + " --decision-log-bytes=65535", "--decision-log-bytes 65535: want at least 64Ki, or 0: no limit"},
		{plain + " --decision-log-bytes=-1Gi", "--decision-log-bytes -1073741824: want at least 64Ki"},
		{plain + " --decision-log-files=-1", "--decision-log-files -1: want 0 or more"},
		{plain + " --max-request-bytes=0", "--max-request-bytes 0: want more than 0"},
		{plain + " --deadline=soon", `invalid argument "soon" for "--deadline" flag`},
		{plain + " --colour=red", "unknown flag: --colour"},
		{"--expander-bind-address=:8444 --tls-cert-file=c --tls-private-key-file=k", ""},
		{"--expander-bind-address=:8444", "--expander-bind-address: want --tls-cert-file and no --client-ca-file"},
		{"--expander-bind-address=:8444 --tls-cert-file=c --tls-private-key-file=k --client-ca-file=a", "--expander-bind-address: want --tls-cert-file and no --client-ca-file"},
		{plain + " now", `unknown command "now" for "sigma-extender"`},
	}
	for _, tt := range tests {
		var o options
		cmd := command(&o)
		cmd.SetArgs(strings.Fields(tt.args))
		if tt.want == "" { // it would run
			require.NoError(t, cmd.ParseFlags(strings.Fields(tt.args)), tt.args)
			require.NoError(t, o.validate(), tt.args)
			continue
		}
		require.ErrorContains(t, cmd.ExecuteContext(t.Context()), tt.want, tt.args)
	}
	var help bytes.Buffer
	cmd := command(&options{})
	cmd.SetOut(&help)
	cmd.SetArgs([]string{"--help"})
	require.NoError(t, cmd.Execute())
	require.Contains(t, help.String(), "--assume-ttl duration")
}

// An authority issues certificates.
type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return &authority{key, cert}
}

// issue makes a certificate for loopback with a name, and its key, as PEM.
func (a *authority) issue(t *testing.T, name string) (cert, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, a.cert, private.Public(), a.key)
	require.NoError(t, err)
	text, err := x509.MarshalECPrivateKey(private)
	require.NoError(t, err)
	return pemOf("CERTIFICATE", der), pemOf("EC PRIVATE KEY", text)
}

func pemOf(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// A folder holds files as a mounted secret does.
type folder struct {
	*testing.T
	path string
}

func (f folder) put(name string, text []byte) string {
	f.Helper()
	path := filepath.Join(f.path, name)
	require.NoError(f, os.WriteFile(path, text, 0o600))
	return path
}

// serveTLS answers with a configuration and gives the address.
func serveTLS(t *testing.T, config *tls.Config) string {
	t.Helper()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", config)
	require.NoError(t, err)
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) }), ReadHeaderTimeout: time.Minute,
		ErrorLog: nil,
	}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return listener.Addr().String()
}

// handshake is the name on the server's certificate, if the server accepts the caller.
func handshake(t *testing.T, address string, config *tls.Config) (string, error) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: config}, Timeout: 10 * time.Second}
	defer client.CloseIdleConnections()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+address, http.NoBody)
	require.NoError(t, err)
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	return response.TLS.PeerCertificates[0].Subject.CommonName, nil
}

func TestCertificateIsReadAgain(t *testing.T) {
	a, f := newAuthority(t), folder{t, t.TempDir()}
	cert, key := a.issue(t, "first")
	o := &options{pages: page.Pages{CertFile: f.put("tls.crt", cert), KeyFile: f.put("tls.key", key)}}
	config, err := tlsConfig(o)
	require.NoError(t, err)
	address := serveTLS(t, config)
	name := func() string {
		got, err := handshake(t, address, &tls.Config{RootCAs: a.pool(), MinVersion: tls.VersionTLS12})
		require.NoError(t, err)
		return got
	}
	require.Equal(t, "first", name())

	// Renewed, the certificate before the key: until both are there, the old pair.
	at := time.Now().Add(time.Second)
	cert, key = a.issue(t, "second")
	f.put("tls.crt", cert)
	require.NoError(t, os.Chtimes(o.pages.CertFile, at, at))
	require.Equal(t, "first", name())
	f.put("tls.key", key)
	require.Equal(t, "second", name())

	require.NoError(t, os.Remove(o.pages.CertFile))
	require.Equal(t, "second", name(), "what was read last")
	f.put("tls.crt", []byte("garbage"))
	require.Equal(t, "second", name())

	_, err = handshake(t, address, &tls.Config{RootCAs: a.pool(), MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}) //nolint:gosec // it is refused
	require.ErrorContains(t, err, "protocol version")
	_, err = handshake(t, address, &tls.Config{MinVersion: tls.VersionTLS12})
	require.ErrorContains(t, err, "unknown authority")
}

func TestClientCA(t *testing.T) {
	ours, theirs, f := newAuthority(t), newAuthority(t), folder{t, t.TempDir()}
	cert, key := ours.issue(t, "extender")
	o := &options{
		pages:    page.Pages{CertFile: f.put("tls.crt", cert), KeyFile: f.put("tls.key", key)},
		clientCA: f.put("ca.crt", pemOf("CERTIFICATE", ours.cert.Raw)),
	}
	config, err := tlsConfig(o)
	require.NoError(t, err)
	address := serveTLS(t, config)
	call := func(by *authority) error {
		config := &tls.Config{RootCAs: ours.pool(), MinVersion: tls.VersionTLS12}
		if by != nil {
			cert, key := by.issue(t, "scheduler")
			pair, err := tls.X509KeyPair(cert, key)
			require.NoError(t, err)
			config.Certificates = []tls.Certificate{pair}
		}
		_, err := handshake(t, address, config)
		return err
	}
	require.NoError(t, call(ours))
	require.Error(t, call(theirs))
	require.Error(t, call(nil))
}

func TestBadTLSFiles(t *testing.T) {
	a, f := newAuthority(t), folder{t, t.TempDir()}
	cert, key := a.issue(t, "x")
	good := page.Pages{CertFile: f.put("tls.crt", cert), KeyFile: f.put("tls.key", key)}
	missing, garbage := filepath.Join(f.path, "missing"), f.put("garbage", []byte("garbage"))
	for want, o := range map[string]options{
		"missing: no such file or directory":                     {pages: page.Pages{CertFile: missing, KeyFile: good.KeyFile}},
		"failed to find any PEM data in certificate input":       {pages: page.Pages{CertFile: garbage, KeyFile: good.KeyFile}},
		"failed to find any PEM data in key input":               {pages: page.Pages{CertFile: good.CertFile, KeyFile: garbage}},
		"open " + missing + ": no such file or directory":        {pages: good, clientCA: missing},
		"--client-ca-file " + garbage + ": no certificate in it": {pages: good, clientCA: garbage},
	} {
		_, err := tlsConfig(&o)
		require.ErrorContains(t, err, want)
	}
	config, err := tlsConfig(&options{})
	require.NoError(t, err)
	require.Nil(t, config)
}

// lists are the kinds of what an API server lists, empty but for one node.
var lists = map[string]string{
	"/api/v1/nodes": "NodeList", "/api/v1/pods": "PodList", "/apis/apps/v1/deployments": "DeploymentList",
	"/apis/apps/v1/statefulsets": "StatefulSetList", "/apis/apps/v1/replicasets": "ReplicaSetList",
	"/apis/batch/v1/jobs": "JobList", "/apis/batch/v1/cronjobs": "CronJobList",
	"/apis/autoscaling/v2/horizontalpodautoscalers": "HorizontalPodAutoscalerList",
	"/apis/resource.k8s.io/v1/deviceclasses":        "DeviceClassList",
}

func apiServer(t *testing.T) *httptest.Server {
	t.Helper()
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		kind, ok := lists[r.URL.Path]
		sent, err := io.ReadAll(r.Body)
		if !assert.NoError(t, err) {
			return
		}
		switch {
		case strings.HasSuffix(r.URL.Path, "/tokenreviews"):
			_, _ = fmt.Fprintf(w, `{"kind":"TokenReview","apiVersion":"authentication.k8s.io/v1","status":{"authenticated":%t,"user":{"username":"x"}}}`,
				strings.Contains(string(sent), "of-prometheus"))
		case strings.HasSuffix(r.URL.Path, "/subjectaccessreviews"):
			_, _ = fmt.Fprintf(w, `{"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":{"allowed":%t}}`,
				strings.Contains(string(sent), "/metrics"))
		case !ok:
			http.NotFound(w, r)
		case r.URL.Query().Get("sendInitialEvents") != "": // clients then list, and watch from there
			http.Error(w, "no streaming lists", http.StatusBadRequest)
		case r.URL.Query().Get("watch") != "":
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		default:
			item := ""
			if kind == "NodeList" {
				item = `{"metadata":{"name":"a"},"status":{"allocatable":{"cpu":"8","memory":"32Gi","pods":"110"}}}`
			}
			version := strings.TrimPrefix(strings.TrimPrefix(filepath.Dir(r.URL.Path), "/apis/"), "/api/")
			_, _ = fmt.Fprintf(w, `{"kind":%q,"apiVersion":%q,"metadata":{"resourceVersion":"1"},"items":[%s]}`, kind, version, item)
		}
	}))
	t.Cleanup(api.CloseClientConnections)
	return api
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	return l.Addr().String()
}

// The whole program: it becomes ready, answers, serves its metrics to those who have a token, and
// ends on a signal.
func TestRun(t *testing.T) {
	api := apiServer(t)
	f := folder{t, t.TempDir()}
	kubeconfig := f.put("kubeconfig", fmt.Appendf(nil, `{apiVersion: v1, kind: Config, current-context: x, clusters: [{name: x, cluster: {server: %q}}],
contexts: [{name: x, context: {cluster: x, user: x}}], users: [{name: x, user: {}}]}`, api.URL))
	calls, pages := freePort(t), freePort(t)
	ctx, cancel := context.WithCancel(context.Background())
	cmd := command(&options{})
	cmd.SetArgs([]string{"--kubeconfig", kubeconfig, "--bind-address", calls, "--metrics-bind-address", pages, "--app-label=app", "--fleet=fixed"})
	ended := make(chan error, 1)
	go func() { ended <- cmd.ExecuteContext(ctx) }()
	defer cancel()

	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // of its own making
	defer client.CloseIdleConnections()
	token := ""
	ask := func(method, url, body string) (int, string) {
		request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
		require.NoError(t, err)
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		response, err := client.Do(request)
		if err != nil {
			return 0, err.Error()
		}
		defer func() { _ = response.Body.Close() }()
		text, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		return response.StatusCode, string(text)
	}
	require.Eventually(t, func() bool {
		status, _ := ask(http.MethodGet, "https://"+pages+"/readyz", "")
		return status == http.StatusOK
	}, 20*time.Second, 10*time.Millisecond)
	status, text := ask(http.MethodGet, "https://"+pages+"/healthz", "")
	require.Equal(t, http.StatusOK, status, text)
	status, text = ask(http.MethodPost, "http://"+calls+"/prioritize", `{"Pod":{"metadata":{"name":"x","uid":"x"}},"NodeNames":["a","b"]}`)
	require.Equal(t, http.StatusOK, status, text)
	require.JSONEq(t, `[{"Host":"a","Score":10},{"Host":"b","Score":0}]`, text)
	for _, token = range []string{"", "made-up"} {
		status, text = ask(http.MethodGet, "https://"+pages+"/metrics", "")
		require.Equal(t, http.StatusUnauthorized, status)
		require.NotContains(t, text, "sigma_")
	}
	status, _ = ask(http.MethodGet, "http://"+pages+"/metrics", "")
	require.Equal(t, http.StatusBadRequest, status, "HTTP on a port for HTTPS")
	token = "of-prometheus"
	status, text = ask(http.MethodGet, "https://"+pages+"/metrics", "")
	require.Equal(t, http.StatusOK, status)
	require.Regexp(t, `sigma_extender_requests_total{code="200",verb="prioritize"} [1-9]`, text)
	require.Regexp(t, `sigma_fallbacks_total{profile="extender",reason="no-policy"} [1-9]`, text)
	require.Contains(t, text, `sigma_nodes{profile="extender"} 1`)
	status, _ = ask(http.MethodGet, "http://"+calls+"/metrics", "")
	require.Equal(t, http.StatusNotFound, status)

	// The port is taken: that ends another one at once.
	second := command(&options{})
	second.SetArgs([]string{"--kubeconfig", kubeconfig, "--bind-address", calls, "--metrics-bind-address", freePort(t)})
	require.ErrorContains(t, second.ExecuteContext(ctx), "address already in use")

	cancel()
	select {
	case err := <-ended:
		require.NoError(t, err)
	case <-time.After(20 * time.Second):
		t.Fatal("it does not end")
	}
	missing := command(&options{})
	missing.SetArgs([]string{"--kubeconfig", filepath.Join(f.path, "missing"), "--bind-address", calls})
	require.ErrorContains(t, missing.ExecuteContext(t.Context()), "missing: no such file or directory")
}

// Without an API server, calls and the page of readiness are answered at once, with what is
// missing, and the log says it without flags.
func TestNoAPIServer(t *testing.T) {
	nobody := freePort(t)
	f := folder{t, t.TempDir()}
	kubeconfig := f.put("kubeconfig", fmt.Appendf(nil, `{apiVersion: v1, kind: Config, current-context: x, clusters: [{name: x, cluster: {server: "http://%s"}}],
contexts: [{name: x, context: {cluster: x, user: x}}], users: [{name: x, user: {}}]}`, nobody))
	calls := freePort(t)
	ctx, cancel := context.WithCancel(t.Context())
	cmd := command(&options{})
	cmd.SetArgs([]string{"--kubeconfig", kubeconfig, "--bind-address", calls, "--metrics-bind-address", freePort(t)})
	ended := make(chan error, 1)
	go func() { ended <- cmd.ExecuteContext(ctx) }()
	defer func() { cancel(); require.NoError(t, <-ended) }()
	begin, text, status := time.Now(), "", 0
	require.Eventually(t, func() bool {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+calls+"/filter", strings.NewReader("{}"))
		require.NoError(t, err)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return false
		}
		defer func() { _ = response.Body.Close() }()
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		status, text = response.StatusCode, string(body)
		return true
	}, 8*time.Second, 10*time.Millisecond)
	require.Less(t, time.Since(begin), 8*time.Second, "a start waits twelve seconds for the cluster")
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Contains(t, text, "are not read yet from the API server http://"+nobody)

	var told atomic.Int64
	waited, stop := context.WithCancel(t.Context())
	go func() {
		tellWaiting(waited, time.Millisecond, func() error {
			if told.Add(1) > 1 {
				return nil
			}
			return errors.New("not yet")
		})
		stop()
	}()
	<-waited.Done()
	require.EqualValues(t, 2, told.Load(), "until nothing is missing")
}
