package operate

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	mpa "github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
)

// An apiServer answers what a test has for a method and a path; for others there is nothing.
type apiServer struct {
	t       *testing.T
	answers map[string]string // "" = forbidden
	denied  string            // resource that the account has no right to
	asked   []string
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	of := r.Method + " " + r.URL.Path
	s.asked = append(s.asked, of)
	w.Header().Set("Content-Type", "application/json")
	status := func(code int, reason, message string) {
		w.WriteHeader(code)
		fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d,"reason":%q,"message":%q}`, code, reason, message)
	}
	if strings.HasSuffix(of, "/selfsubjectaccessreviews") {
		var review struct {
			Spec struct {
				ResourceAttributes struct{ Resource, Subresource string }
			}
		}
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			s.t.Error(err)
		}
		is := review.Spec.ResourceAttributes.Resource + "/" + review.Spec.ResourceAttributes.Subresource
		fmt.Fprintf(w, `{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview","status":{"allowed":%t}}`, is != s.denied)
		return
	}
	if r.Method == http.MethodPost && r.URL.Query().Get("dryRun") != "All" {
		s.t.Errorf("%s is no dry run", of)
	}
	switch answer, ok := s.answers[of]; {
	case !ok:
		status(http.StatusNotFound, "NotFound", "there is no "+r.URL.Path)
	case answer == "":
		status(http.StatusForbidden, "Forbidden", "eve may not")
	case strings.HasPrefix(answer, "503 "):
		status(http.StatusServiceUnavailable, "ServiceUnavailable", strings.TrimPrefix(answer, "503 "))
	case answer == "401":
		w.WriteHeader(http.StatusUnauthorized)
	default:
		fmt.Fprint(w, answer)
	}
}

func TestReach(t *testing.T) {
	const (
		hooks  = "GET /apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/sigma-mpa"
		probe  = "POST /api/v1/namespaces/scaling/configmaps"
		list   = "GET /api/v1/namespaces/scaling/configmaps/sigma-mpa-prometheus"
		those  = "GET /apis/autoscaling.sigma-scheduler.io/v1alpha1/multidimpodautoscalers"
		server = "GET /api/v1/namespaces/monitoring/services/http:prometheus:9090/proxy/api/v1/query"
	)
	configured := fmt.Sprintf(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"MutatingWebhookConfiguration","metadata":{"name":"sigma-mpa"},
		"webhooks":[{"name":"pods.autoscaling.sigma-scheduler.io"},{"name":%q,"clientConfig":{"service":{"namespace":"scaling","name":"w"}}}]}`, mpa.ProbeWebhook)
	created := func(annotations string) string {
		return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"namespace":"scaling","annotations":%s}}`, mpa.ProbeName, annotations)
	}
	servers := func(urls ...string) string {
		text := "servers:\n"
		for i, u := range urls {
			text += fmt.Sprintf("- {name: s%d, url: %q, headers: {X: y}}\n", i, u)
		}
		quoted, err := json.Marshal(text)
		require.NoError(t, err)
		return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"sigma-mpa-prometheus"},"data":{"servers.yaml":%s}}`, quoted)
	}
	naming := `{"apiVersion":"autoscaling.sigma-scheduler.io/v1alpha1","kind":"MultidimPodAutoscalerList","metadata":{},
		"items":[{"metadata":{"name":"web"},"spec":{"metrics":{"prometheus":{"server":"s0"}}}}]}`
	reached := created(`{"` + mpa.ProbeMark + `":"true"}`)
	const inside = "http://prometheus.monitoring:9090"
	for name, c := range map[string]struct {
		answers map[string]string
		denied  string
		want    []string // check, state, what is found or comes next
	}{
		"no autoscaler":          {want: nil},
		"reached":                {answers: map[string]string{hooks: configured, probe: reached}, want: []string{"webhook ok the API server reaches the autoscaler's, in namespace scaling"}},
		"not reached":            {answers: map[string]string{hooks: configured, probe: created("{}")}, want: []string{"webhook lacks the API server gets no answer", "docs/mpa.md#is-the-webhook-reached"}},
		"its namespace is gone":  {answers: map[string]string{hooks: configured}, want: []string{"webhook lacks its configuration names namespace scaling, which is not there", "kubectl delete mutatingwebhookconfiguration sigma-mpa"}},
		"the dry run fails":      {answers: map[string]string{hooks: configured, probe: "503 another webhook fails"}, want: []string{"webhook unknown the dry run that probes it failed: "}},
		"no right to look":       {answers: map[string]string{hooks: ""}, want: []string{"webhook unknown the account may not read mutatingwebhookconfigurations"}},
		"no right to probe":      {answers: map[string]string{hooks: configured, probe: ""}, want: []string{"webhook unknown it is probed by a dry run", "kubectl auth can-i create configmaps -n scaling"}},
		"of an earlier version":  {answers: map[string]string{hooks: strings.ReplaceAll(configured, mpa.ProbeWebhook, "other")}, want: []string{"webhook unknown mutatingwebhookconfigurations sigma-mpa has no webhook probe."}},
		"a server that answers":  {answers: map[string]string{hooks: configured, probe: reached, list: servers(inside), server: `{"status":"success"}`}, want: []string{"webhook ok", "Prometheus s0 ok " + inside + " answers"}},
		"one with a password":    {answers: map[string]string{hooks: configured, probe: reached, list: servers(inside), server: "401"}, want: []string{"webhook ok", "Prometheus s0 ok " + inside + " answers, and asks for credentials"}},
		"one that nobody needs":  {answers: map[string]string{hooks: configured, probe: reached, list: servers(inside)}, want: []string{"webhook ok", "Prometheus s0 without " + inside + " does not answer"}},
		"one that is needed":     {answers: map[string]string{hooks: configured, probe: reached, list: servers(inside), those: naming, server: "503 no endpoints available"}, want: []string{"webhook ok", "Prometheus s0 lacks " + inside + " does not answer: no endpoints available", "name yours in the configmap"}},
		"one that is elsewhere":  {answers: map[string]string{hooks: configured, probe: reached, list: servers("https://mimir.example.org/prometheus")}, want: []string{"webhook ok", "Prometheus s0 unknown https://mimir.example.org/prometheus is no service", "MetricsAvailable"}},
		"no right to the proxy":  {answers: map[string]string{hooks: configured, probe: reached, list: servers(inside)}, denied: "services/proxy", want: []string{"webhook ok", "Prometheus s0 unknown the account may not ask", "kubectl auth can-i get services --subresource=proxy -n monitoring"}},
		"no right to the list":   {answers: map[string]string{hooks: configured, probe: reached, list: ""}, want: []string{"webhook ok", "Prometheus unknown the account may not read configmaps in scaling"}},
		"a list that is no YAML": {answers: map[string]string{hooks: configured, probe: reached, list: strings.Replace(servers(), "servers:", "servers: [", 1)}, want: []string{"webhook ok", "Prometheus lacks servers.yaml of configmap sigma-mpa-prometheus: "}},
	} {
		t.Run(name, func(t *testing.T) {
			api := &apiServer{t: t, answers: c.answers, denied: c.denied}
			httpServer := httptest.NewServer(api)
			defer httpServer.Close()
			cluster, err := New(&rest.Config{Host: httpServer.URL}, "sigma-system", time.Minute)
			require.NoError(t, err)
			d, err := cluster.doctor()
			require.NoError(t, err)
			require.NoError(t, d.reach(t.Context()))
			var text strings.Builder
			for _, f := range d.list {
				fmt.Fprintln(&text, f.Check, f.State, f.Found, f.Next)
			}
			if c.want == nil {
				require.Empty(t, text.String())
			}
			for _, want := range c.want {
				require.Contains(t, text.String(), want)
			}
			if name == "not reached" {
				require.Equal(t, tries, strings.Count(strings.Join(api.asked, "\n"), probe+"\n"), api.asked)
			}
		})
	}
}

func TestProxied(t *testing.T) {
	for address, want := range map[string]string{
		"http://prometheus.monitoring:9090":         "monitoring /api/v1/namespaces/monitoring/services/http:prometheus:9090/proxy/api/v1/query",
		"https://p.m.svc.cluster.local/prometheus/": "m /api/v1/namespaces/m/services/https:p:443/proxy/prometheus/api/v1/query",
		"http://p.m.svc":                            "m /api/v1/namespaces/m/services/http:p:80/proxy/api/v1/query",
		"https://mimir.example.org":                 " ",
		"http://prometheus:9090":                    " ",
		"http://10.0.0.1:9090":                      " ",
		"http://[::1]:9090":                         " ",
		"http://%zz":                                " ",
	} {
		path, namespace := proxied(address)
		require.Equal(t, want, namespace+" "+path, address)
	}
}
