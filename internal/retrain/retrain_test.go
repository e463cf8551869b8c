package retrain

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/internal/scaling"
	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/learned"
	"github.com/sigma-scheduler/sigma/mpa/retraining"
	"github.com/sigma-scheduler/sigma/mpa/sim"
)

// command runs the command with some flags.
func command(t *testing.T, flags ...string) (printed string, err error) {
	t.Helper()
	var out bytes.Buffer
	cmd := Command(&out, func(f func(*cobra.Command, []string) error) func(*cobra.Command, []string) error { return f })
	cmd.SetArgs(flags)
	cmd.SetOut(io.Discard)
	cmd.SetErr(io.Discard)
	err = cmd.ExecuteContext(context.Background())
	return out.String(), err
}

func TestFlags(t *testing.T) {
	t.Setenv(retraining.ServingVariable, string(learned.GeneralFile()))
	right := []string{"--journals=x", "--object=shop/web", "--uid=u", "--policy=general"}
	for _, tt := range []struct{ flag, want string }{
		{"--journals=", "--journals is empty"},
		{"--object=web", `--object "web", --uid "u": want NAMESPACE/NAME`},
		{"--object=../shop/web", "want NAMESPACE/NAME"},
		{"--uid=../u", "want NAMESPACE/NAME"},
		{"--uid=", "--uid is empty"},
		{"--policy=", "--policy is empty"},
		{"--evaluations=0", "want at least 1"},
		{"--first=900000", "seeds from 900000 up are for tests"},
		{"--colour=red", "unknown flag: --colour"},
		{"--scenarios=12", "no such file"},
	} {
		_, err := command(t, append(slices.Clone(right), tt.flag)...)
		require.ErrorContains(t, err, tt.want, tt.flag)
	}
	t.Setenv(retraining.ServingVariable, "kind: Pod")
	_, err := command(t, right...)
	require.ErrorContains(t, err, "$SIGMA_SERVING_POLICY: apiVersion")
}

// poor is a policy that is easily beaten.
func poor(t *testing.T) (*learned.Policy, string) {
	t.Helper()
	p := learned.General()
	for i, n := range learned.Numbers {
		if n.Name == "spare" || n.Name == "betaLeast" {
			p.Values[i] = n.Max
		}
	}
	data, err := p.Marshal()
	require.NoError(t, err)
	return p, string(data)
}

// The policy that is found is created with its provenance; none is where it is not better.
func TestRetrain(t *testing.T) {
	serving, text := poor(t)
	t.Setenv(retraining.ServingVariable, text)
	journals := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(journals, "shop"), 0o755))
	g, err := sim.NewGenerator("train", "")
	require.NoError(t, err)
	s, err := g.Generate(304)
	require.NoError(t, err)
	load := s.Load
	for n := len(load.PerSec); float64(len(load.PerSec))*load.Step < 6.1*3600; {
		load.PerSec = append(load.PerSec, load.PerSec[len(load.PerSec)-n])
	}
	a := scaling.Agent{Name: "learned", Policy: serving}
	cfg := sim.Config{App: s.App, Load: load, Seconds: 6.1 * 3600, Seed: 304, Guards: mpa.DefaultGuards(), Site: sim.DefaultSite()}
	_, err = a.RunLogged(t.Context(), cfg, journals)
	require.NoError(t, err)
	require.NoError(t, os.Rename(filepath.Join(journals, "generated-304-learned-304.jsonl"), filepath.Join(journals, "shop", "web.u.jsonl")))
	require.NoError(t, os.WriteFile(filepath.Join(journals, "shop", "other.u.jsonl"), []byte("garbage\n"), 0o600)) // is not read

	var created []map[string]any
	status := http.StatusCreated
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.Method != http.MethodPost || r.URL.Path != "/apis/autoscaling.sigma-scheduler.io/v1alpha1/scalingpolicies" {
			status = http.StatusTeapot
		}
		var o map[string]any
		if err := json.Unmarshal(body, &o); err == nil {
			created = append(created, o)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		if status == http.StatusCreated {
			_, _ = w.Write(body)
			return
		}
		_, _ = fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","message":"not yours","code":%d}`, status)
	}))
	t.Cleanup(server.Close)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(kubeconfig, []byte(`{"clusters":[{"name":"c","cluster":{"server":"`+server.URL+`"}}],"contexts":[{"name":"c","context":{"cluster":"c"}}],"current-context":"c"}`), 0o600))
	result := filepath.Join(t.TempDir(), "result")
	flags := []string{"--journals=" + journals, "--object=shop/web", "--uid=u", "--policy=general", "--scenarios=8", "--evaluations=24", "--kubeconfig=" + kubeconfig, "--result=" + result}

	printed, err := command(t, flags...)
	require.NoError(t, err)
	data, err := os.ReadFile(result)
	require.NoError(t, err)
	require.Equal(t, printed, string(data)+"\n")
	var r retraining.Result
	require.NoError(t, json.Unmarshal(data, &r))
	require.Equal(t, 1, r.Pieces)
	require.Less(t, r.FoundCost, r.ServesCost)
	require.Len(t, created, 1)
	require.Regexp(t, "^general-[0-9a-f]{8}$", r.Policy)
	require.Equal(t, r.Policy, created[0]["metadata"].(map[string]any)["name"])
	from := created[0]["spec"].(map[string]any)["provenance"].(map[string]any)
	p, err := learned.Parse("", []byte(text))
	require.NoError(t, err)
	require.Equal(t, p.Digest, from["replacesDigest"])
	require.True(t, strings.HasPrefix(from["journal"].(string), "sha256:"))
	require.InDelta(t, 1, from["seed"], 0)

	status = http.StatusForbidden
	_, err = command(t, append(flags, "--workers=2")...) // the same policy for any number of workers
	require.ErrorContains(t, err, "create ScalingPolicy "+r.Policy+": not yours")

	created = nil
	printed, err = command(t, append(flags, "--evaluations=1", "--particles=1")...)
	require.NoError(t, err)
	require.Empty(t, created)
	require.Contains(t, printed, `{"pieces":1,`)
}
