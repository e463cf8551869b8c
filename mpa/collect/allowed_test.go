package collect

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
)

func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// rateOf asks for the rate of an object's workload.
func rateOf(t *testing.T, p *Prometheus, o v1alpha1.Prometheus) (mpa.Metric, []Problem) {
	t.Helper()
	if o.Queries.Rate == "" {
		o.Queries.Rate = "a"
	}
	ob := &mpa.Observation{Time: now, Pods: []mpa.Pod{{Name: "web-a"}}}
	_, problems, err := p.measure(t.Context(), object(func(m *v1alpha1.MultidimPodAutoscaler) { m.Spec.Metrics.Prometheus = &o }), ob)
	require.NoError(t, err)
	return ob.Rate, problems
}

func TestServersFile(t *testing.T) {
	servers, err := ReadServers(file(t, `
servers:
- name: main
  url: http://prometheus.monitoring:9090
- name: thanos
  url: https://thanos.example.org/prefix/
  bearerTokenFile: /token
  tls: {caFile: /ca, certFile: /cert, keyFile: /key, serverName: thanos}
- {name: mimir, url: "https://mimir", basic: {username: u, passwordFile: /p}, headers: {X-Scope-OrgID: shop}}
`))
	require.NoError(t, err)
	assert.Equal(t, []Server{
		{Name: "main", URL: "http://prometheus.monitoring:9090"},
		{
			Name: "thanos", URL: "https://thanos.example.org/prefix/", BearerTokenFile: "/token",
			TLS: &TLS{CAFile: "/ca", CertFile: "/cert", KeyFile: "/key", ServerName: "thanos"},
		},
		{Name: "mimir", URL: "https://mimir", Basic: &Basic{"u", "/p"}, Headers: map[string]string{"X-Scope-OrgID": "shop"}},
	}, servers)
	servers, err = ReadServers(file(t, "servers: []"))
	require.NoError(t, err)
	assert.Empty(t, servers)

	for _, test := range []struct{ text, want string }{
		{"", "servers is missing"},
		{"server: []", "line 1: field server not found"},
		{"servers:\n- {name: a, url: http://a}\n- name: b\n  uri: http://b", "line 4: field uri not found"},
		{"servers:\n- {name: a, name: b, url: http://b}", `line 2: mapping key "name" already defined`},
		{"servers: []\n---\nservers: []", "more than one YAML document"},
		{"servers: [{name: a, url: http://a}, {name: a, url: http://b}]", `servers[1] "a": name: another server has it`},
		{"servers: [{url: http://a}]", `servers[0] "": name: `},
		{"servers: [{name: A, url: http://a}]", `servers[0] "A": name: `},
		{"servers: [{name: a}]", `servers[0] "a": url: want http://host or https://host`},
		{"servers: [{name: a, url: a:9090}]", `url: want http://host or https://host`},
		{"servers: [{name: a, url: file:///etc/passwd}]", `url: want http://host or https://host`},
		{"servers: [{name: a, url: http://me:geheim@a}]", "url: a user does not belong there: use basic or bearerTokenFile"},
		{"servers: [{name: a, url: 'http://me:geheim@a b'}]", "url: not a URL"},
		{"servers: [{name: a, url: 'http://a?b=c'}]", "url: a query or a fragment does not belong there"},
		{"servers: [{name: a, url: http://a, bearerTokenFile: x, basic: {}}]", "basic, bearerTokenFile: want one of them"},
		{"servers: [{name: a, url: http://a, basic: {username: u}}]", "basic: want username and passwordFile"},
		{"servers: [{name: a, url: http://a, tls: {caFile: x}}]", "tls: the url is not https"},
		{"servers: [{name: a, url: https://a, tls: {certFile: x}}]", "tls: want certFile and keyFile"},
		{"servers: [{name: a, url: http://a, headers: {a b: c}}]", `headers: "a b" or its value cannot be in a request`},
		{"servers: [{name: a, url: http://a, headers: {authorization: c}}]", "headers: authorization does not belong there"},
	} {
		path := file(t, test.text)
		_, err := ReadServers(path)
		require.ErrorContains(t, err, test.want, test.text)
		require.ErrorContains(t, err, path)
		require.NotContains(t, err.Error(), "geheim")
	}
	_, err = ReadServers("missing")
	require.ErrorContains(t, err, "missing: no such file")
	for field, s := range map[string]Server{
		"bearerTokenFile": {BearerTokenFile: "missing"}, "basic.passwordFile": {Basic: &Basic{"u", "missing"}},
		"tls.caFile": {TLS: &TLS{CAFile: "missing"}}, "tls.certFile": {TLS: &TLS{CertFile: "missing", KeyFile: "missing"}},
	} {
		s.Name, s.URL = "a", "https://a"
		_, err := NewPrometheus([]Server{s}, 1, clock)
		require.ErrorContains(t, err, `servers[0] "a": `+field+": open missing: ")
	}
	empty := file(t, "nothing")
	_, err = NewPrometheus([]Server{{Name: "a", URL: "https://a", TLS: &TLS{CAFile: empty}}}, 1, clock)
	require.ErrorContains(t, err, `servers[0] "a": tls.caFile: `+empty+": no certificate in PEM")
}

// TestOnlyServersOfTheList: an object names a server; its own address counts only where it is one
// of the list.
func TestOnlyServersOfTheList(t *testing.T) {
	var asked atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		prom(one("1"), 1)(w, r)
	}))
	t.Cleanup(s.Close)
	p := allow(t, 4, clock, Server{Name: "main", URL: s.URL}, Server{Name: "more", URL: "http://more/"}, Server{Name: "twin", URL: "http://more"})
	for _, o := range []v1alpha1.Prometheus{{Server: "main"}, {Address: s.URL}, {Address: s.URL + "/"}} {
		rate, problems := rateOf(t, p, o)
		assert.Empty(t, problems)
		assert.Equal(t, 1., rate.Value)
	}
	asked.Store(0)
	for _, test := range []struct {
		o               v1alpha1.Prometheus
		reason, message string
	}{
		{v1alpha1.Prometheus{Server: "mian"}, "PrometheusServer", `no "mian": it has main, more, twin`},
		{v1alpha1.Prometheus{Server: "mian", Address: s.URL}, "PrometheusServer", `no "mian"`},
		{v1alpha1.Prometheus{Address: s.URL + "/api"}, "PrometheusAddress", "replace it by metrics.prometheus.server with a name from there: it has main, more, twin"},
		{v1alpha1.Prometheus{Address: strings.Replace(s.URL, "http://", "http://me:geheim@", 1)}, "PrometheusAddress", "it has main, more, twin"},
		{v1alpha1.Prometheus{Address: "http://169.254.169.254"}, "PrometheusAddress", "it has main"},
		{v1alpha1.Prometheus{Address: "http://more"}, "PrometheusAddress", "not that of exactly one server"},
		{v1alpha1.Prometheus{}, "PrometheusAddress", "it has main"},
	} {
		rate, problems := rateOf(t, p, test.o)
		requireProblem(t, problems, Rate, test.reason, test.message)
		assert.NotContains(t, problems[0].Message, "geheim")
		assert.Zero(t, rate)
	}
	_, problems := rateOf(t, allow(t, 4, clock), v1alpha1.Prometheus{Address: s.URL})
	requireProblem(t, problems, Rate, "PrometheusAddress", "it has none")
	assert.Zero(t, asked.Load())
}

// TestNoRedirectAndNoForeignWord: whatever a server answers, nobody else is asked, and the
// problem, which everybody reads in the status, is in this program's words.
func TestNoRedirectAndNoForeignWord(t *testing.T) {
	const secret = "geheim"
	var elsewhere atomic.Int64
	private := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		elsewhere.Add(1)
		code(http.StatusBadRequest, `{"status":"error","errorType":"bad_data","error":"`+secret+`"}`)(w, nil)
	}))
	t.Cleanup(private.Close)
	moved := func(status int) http.HandlerFunc { return http.RedirectHandler(private.URL, status).ServeHTTP }
	vector := `{"status":"success","data":{"resultType":"vector","result":%s}%s}`
	series := func(labels, value string) string {
		return fmt.Sprintf(`{"metric":{%s},"value":[1,"%s"]}`, labels, value)
	}
	for _, test := range []struct {
		name            string
		answer          http.HandlerFunc
		reason, message string
	}{
		{"moved", moved(301), "PrometheusRefused", "status code 301"},
		{"found", moved(302), "PrometheusRefused", "status code 302, and redirects are not followed"},
		{"temporary", moved(307), "PrometheusRefused", "status code 307"},
		{"permanent", moved(308), "PrometheusRefused", "status code 308"},
		{"bad data", code(400, `{"status":"error","errorType":"bad_data","error":"geheim"}`), "QueryInvalid", "status code 400"},
		{"a type of its own", code(422, `{"status":"error","errorType":"geheim","error":"geheim"}`), "QueryFailed", "status code 422"},
		{"an error that succeeds", code(200, `{"status":"error","errorType":"geheim","error":"geheim"}`), "PrometheusGarbled", ""},
		{"no credentials", code(401, secret), "PrometheusRefused", "status code 401"},
		{"wrong credentials", code(403, secret), "PrometheusRefused", "status code 403"},
		{"broken", code(500, secret), "QueryFailed", "status code 500"},
		{"no POST", code(405, secret), "QueryFailed", "status code 405"},
		{"not JSON", code(200, secret), "PrometheusGarbled", ""},
		{"other JSON", code(200, `{"status":"success","data":{"resultType":"geheim","result":"geheim"}}`), "PrometheusGarbled", ""},
		{"a vector of texts", code(200, fmt.Sprintf(vector, `["geheim"]`, "")), "PrometheusGarbled", ""},
		{"a value that is none", code(200, fmt.Sprintf(vector, "["+series(``, secret)+"]", "")), "PrometheusGarbled", ""},
		{"a warning", code(200, fmt.Sprintf(vector, "[]", `,"warnings":["geheim"]`)), "QueryWarning", ""},
		{"labels of two", code(200, fmt.Sprintf(vector, "["+series(`"a":"geheim"`, "1")+","+series(`"geheim":"b"`, "1")+"]", "")), "SeveralSeries", "2 series"},
		{"labels of NaN", code(200, fmt.Sprintf(vector, "["+series(`"a":"geheim"`, "NaN")+"]", "")), "NotANumber", ""},
		{"not HTTP", func(w http.ResponseWriter, _ *http.Request) {
			c, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_, _ = c.Write([]byte("SSH-2.0-geheim\r\n"))
				_ = c.Close()
			}
		}, "PrometheusUnreachable", "the recommender's log says why"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := httptest.NewServer(test.answer)
			t.Cleanup(s.Close)
			rate, problems := rateOf(t, allow(t, 1, clock, Server{Name: "main", URL: s.URL, BearerTokenFile: file(t, "token")}), v1alpha1.Prometheus{Server: "main"})
			requireProblem(t, problems, Rate, test.reason, test.message)
			assert.NotContains(t, problems[0].Message, secret)
			assert.Zero(t, rate)
			assert.Zero(t, elsewhere.Load(), "no other server is asked")
		})
	}
}

// TestForeignSeriesAreNotNamed: what a query for usage answers with beside the observed
// containers is neither used nor named.
func TestForeignSeriesAreNotNamed(t *testing.T) {
	answer := fmt.Sprintf(`[{"metric":{"pod":"web-a","container":"geheim"},"value":[%[1]d,"NaN"]},{"metric":{"pod":"geheim","container":"web"},"value":[%[1]d,"-1"]}]`, now.Unix())
	s := httptest.NewServer(prom(answer, 1))
	t.Cleanup(s.Close)
	c := newCollector(t, metricsAPI{}, cluster()...)
	c.Prometheus = allow(t, 1, clock, Server{Name: "main", URL: s.URL})
	_, problems := observe(t, c, object(func(o *v1alpha1.MultidimPodAutoscaler) {
		o.Spec.Metrics = v1alpha1.Metrics{Usage: v1alpha1.UsagePrometheus, Prometheus: &v1alpha1.Prometheus{Server: "main"}}
	}))
	requireProblem(t, problems, Usage, "UsageMissing", "Prometheus has no usage of the 2 running pods")
}

// TestCredentials: a server gets its own and no other's, and a new password without a restart.
func TestCredentials(t *testing.T) {
	seen := func(into *atomic.Pointer[http.Request]) *httptest.Server {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			into.Store(r)
			prom(one("1"), 1)(w, r)
		}))
		t.Cleanup(s.Close)
		return s
	}
	var plain, token, basic atomic.Pointer[http.Request]
	password := file(t, "first\n")
	p := allow(t, 4, clock,
		Server{Name: "plain", URL: seen(&plain).URL},
		Server{Name: "token", URL: seen(&token).URL, BearerTokenFile: file(t, "geheim\n")},
		Server{Name: "basic", URL: seen(&basic).URL, Basic: &Basic{"me", password}, Headers: map[string]string{"X-Scope-OrgID": "shop"}},
	)
	for _, name := range []string{"plain", "token", "basic"} {
		_, problems := rateOf(t, p, v1alpha1.Prometheus{Server: name})
		require.Empty(t, problems, name)
	}
	assert.Empty(t, plain.Load().Header.Get("Authorization"))
	assert.Empty(t, plain.Load().Header.Get("X-Scope-OrgID"))
	assert.Equal(t, "Bearer geheim", token.Load().Header.Get("Authorization"))
	assert.Equal(t, "shop", basic.Load().Header.Get("X-Scope-OrgID"))
	for _, want := range []string{"first", "second"} {
		require.NoError(t, os.WriteFile(password, []byte(want), 0o600))
		_, problems := rateOf(t, p, v1alpha1.Prometheus{Server: "basic"})
		require.Empty(t, problems)
		user, got, _ := basic.Load().BasicAuth()
		assert.Equal(t, "me "+want, user+" "+got)
	}
	require.NoError(t, os.Remove(password))
	_, problems := rateOf(t, p, v1alpha1.Prometheus{Server: "basic"})
	requireProblem(t, problems, Rate, "PrometheusUnreachable", "cannot be reached: the recommender's log says why")
}

// TestTLS: a server's certificate is checked against its own authority, and the client's is shown.
func TestTLS(t *testing.T) {
	var shown atomic.Int64
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		shown.Store(int64(len(r.TLS.PeerCertificates)))
		prom(one("1"), 1)(w, r)
	}))
	s.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	pair := s.TLS.Certificates[0]
	authority := file(t, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]})))
	private, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	require.NoError(t, err)
	key := file(t, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})))
	p := allow(t, 4, clock,
		Server{Name: "trusted", URL: s.URL, TLS: &TLS{CAFile: authority}},
		Server{Name: "shown", URL: s.URL, TLS: &TLS{CAFile: authority, CertFile: authority, KeyFile: key}},
		Server{Name: "unknown", URL: s.URL},
		Server{Name: "another", URL: s.URL, TLS: &TLS{CAFile: authority, ServerName: "another.example.net"}},
	)
	for name, certificates := range map[string]int64{"trusted": 0, "shown": 1} {
		_, problems := rateOf(t, p, v1alpha1.Prometheus{Server: name})
		require.Empty(t, problems)
		assert.Equal(t, certificates, shown.Load(), name)
	}
	for _, name := range []string{"unknown", "another"} {
		_, problems := rateOf(t, p, v1alpha1.Prometheus{Server: name})
		requireProblem(t, problems, Rate, "PrometheusUnreachable", "cannot be reached")
	}
}
