//go:build e2e

package e2e_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/sigma-scheduler/sigma/lab/e2e"
)

// What programs tell when all is well, and after that. N is the number of the scrape.
const (
	wellMetrics = `
leader_election_master_status{name="kube-scheduler"} 1
sigma_decisions_total{profile="sigma"} N
sigma_fallbacks_total{profile="sigma"} 0
sigma_state_restarts_total{profile="sigma"} 0
sigma_state_divergence{profile="sigma"} 0
sigma_waiting_pods_forgotten_total{profile="sigma",reason="number"} 0
scheduler_pending_pods{queue="unschedulable"} 0
sigma_decision_log_lost_events_total{profile="sigma"} 0
sigma_mpa_decisions_total N
sigma_mpa_observation_errors_total{namespace="n",name="o",source="prometheus"} 0
sigma_mpa_slo_ratio{namespace="n",name="o"} 0.9
sigma_mpa_resize_pods{namespace="n",name="o",state="Deferred"} 0
sigma_mpa_admission_pods_total{result="sized"} N
sigma_mpa_admission_pods_total{result="failed"} 0
sigma_mpa_webhook_reached 1
`
	brokenMetrics = `
leader_election_master_status{name="kube-scheduler"} 0
sigma_decisions_total{profile="sigma"} N
sigma_fallbacks_total{profile="sigma"} N
sigma_load_errors_total{profile="sigma",kind="placementpolicies"} N
sigma_rule_conflicts_total{profile="sigma",rule="apart"} N
sigma_unclear_bindings_total{profile="sigma",outcome="unknown"} N
sigma_state_restarts_total{profile="sigma"} N
sigma_state_divergence{profile="sigma"} 1
sigma_waiting_pods_forgotten_total{profile="sigma",reason="number"} N
scheduler_pending_pods{queue="unschedulable"} 1
sigma_decision_log_lost_events_total{profile="sigma"} N
sigma_mpa_decisions_total 7
sigma_mpa_observation_errors_total{namespace="n",name="o",source="prometheus"} N
sigma_mpa_slo_ratio{namespace="n",name="o"} 1.1
sigma_mpa_resize_pods{namespace="n",name="o",state="Deferred"} 1
sigma_mpa_admission_pods_total{result="failed"} N
sigma_mpa_webhook_reached 0
`
)

// TestAlarms: a real Prometheus takes the alarms of the manifests; none rings when all is
// well, and each rings when what it is about happens. Their times are seconds here.
func TestAlarms(t *testing.T) {
	var broken atomic.Bool
	var scrapes atomic.Int64
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		text := wellMetrics
		if broken.Load() {
			text = brokenMetrics
		}
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		_, _ = io.WriteString(w, strings.ReplaceAll(strings.TrimLeft(text, "\n"), " N\n", fmt.Sprintf(" %d\n", scrapes.Add(1))))
	}))
	t.Cleanup(page.Close)

	var rules [][]byte
	var names []string
	for _, file := range []string{"components/servicemonitor/rules.yaml", "mpa/monitoring/rules.yaml"} {
		text, err := os.ReadFile(filepath.Join(repository, "manifests", file))
		require.NoError(t, err)
		var rule struct{ Spec map[string]any }
		require.NoError(t, yaml.Unmarshal(text, &rule))
		content, err := yaml.Marshal(rule.Spec)
		require.NoError(t, err)
		quick := regexp.MustCompile(`\[\d+[mh]\]`).ReplaceAllString(string(content), "[4s]")
		quick = regexp.MustCompile(`offset \d+m`).ReplaceAllString(quick, "offset 4s")
		quick = regexp.MustCompile(`(?m)^ +for: .*\n`).ReplaceAllString(quick, "")
		rules = append(rules, []byte(quick))
		for _, m := range regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(string(text), -1) {
			names = append(names, m[1])
		}
	}
	require.Greater(t, len(names), 12)
	prometheus := e2e.StartPrometheusWith(t, rules, strings.TrimPrefix(page.URL, "http://"))

	e2e.Wait(t, "ten scrapes", func() (string, bool) { return "", scrapes.Load() >= 10 })
	ringing, err := e2e.Query(t.Context(), prometheus.URL, `count(max_over_time(ALERTS[3s])) or vector(0)`)
	require.NoError(t, err)
	require.Zero(t, ringing, "alarms that ring when all is well")
	broken.Store(true)
	for _, name := range names {
		e2e.Wait(t, name, func() (string, bool) {
			_, err := e2e.Query(t.Context(), prometheus.URL, fmt.Sprintf(`count(ALERTS{alertname=%q,alertstate="firing"})`, name))
			return fmt.Sprint(err), err == nil
		})
	}
}
