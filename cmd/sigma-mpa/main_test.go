package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFlags(t *testing.T) {
	tests := []struct{ args, want string }{
		{"now", `unknown command "now" for "sigma-mpa"`},
		{"all now", `unknown command "now" for "sigma-mpa all"`},
		{"all --colour=red", "unknown flag: --colour"},
		{"all", "--namespace is empty, and this process is not in a pod: open /var/run/secrets/"},
		{"recommender", "--namespace is empty"},
		{"admission", "--namespace is empty"},
		{"updater --v=-1", "--v -1: want 0 or more"},
		{"updater --leader-elect=maybe", `invalid argument "maybe" for "--leader-elect" flag`},
		{"updater --webhook-bind-address=:1", "unknown flag: --webhook-bind-address"},
		{"admission --leader-elect", "unknown flag: --leader-elect"},
		{"admission --webhook-bind-address=9443", `--webhook-bind-address "9443": want host:port or :port`},
		{"admission --webhook-secret=", "--webhook-secret is empty"},
		{"all --certificate-lifetime=1s", "--certificate-lifetime 1s: want 15s or more"},
		{"all --metrics-bind-address=8080", `--metrics-bind-address "8080": want host:port or :port`},
		{"all --health-probe-bind-address=8081", `--health-probe-bind-address "8081": want host:port or :port`},
		{"all --metrics-plain-http --health-probe-bind-address=0", "--metrics-bind-address :8080 with --metrics-plain-http: only a loopback address is served in plain HTTP"},
		{"updater --tls-cert-file=c", "--tls-cert-file and --tls-private-key-file need each other"},
		{"recommender --interval=1ms", "--interval 1ms: want 1s to 5m"},
		{"recommender --cool-down=2h", "--cool-down 2h0m0s, --patience 5m0s: want 0s to 1h"},
		{"recommender --patience=-1s", "--patience -1s: want 0s to 1h"},
		{"recommender --downscale-stabilisation=0", "--downscale-stabilisation 0s: want 1s to 1h"},
		{"all --recommender-name=", "--recommender-name is empty"},
		{"recommender --prometheus-servers=missing", "--prometheus-servers: open missing: no such file or directory"},
		{"updater --prometheus-servers=missing", "unknown flag: --prometheus-servers"},
		{"all --journal-age=1m", "--journal-age 1m0s: want at least 1h"},
		{"all --retraining-template=x", "--retraining-template needs --journal-dir"},
		{"recommender --retraining-after=-1s", "--retraining-after -1s, --retraining-cool-down 24h0m0s: want at least 0"},
		{"recommender --retraining-jobs=0", "--retraining-jobs 0: want at least 1"},
		{"batch --mode=On", `--mode "On": want Observe or Apply`},
		{"batch --every=1ms", "--every 1ms: want 1s or more"},
		{"batch --stale=1s", "--stale 1s: want --every 1m0s or more"},
		{"batch --growth=0", "--growth 0: want more than 0"},
		{"batch --grace=-1s", "--grace -1s: want 0s or more"},
		{"batch --starving=-1s", "--starving -1s: want 0s or more"},
		{"batch --prometheus=http://p", "--prometheus needs --usage-history"},
		{"updater --evict-after=-1s", "--evict-after -1s: want at least 0"},
		{"updater --max-evictions-per-node=-1", "--max-evictions-per-hour 1000, --max-evictions-per-namespace 200, --max-evictions-per-node -1: want at least 0"},
		{"updater --updater-workers=0", "--updater-workers 0: want at least 1"},
		{"all --namespace=x --kubeconfig=missing", "missing: no such file or directory"},
		{"updater --leader-elect=false --kubeconfig=missing", "missing: no such file or directory"},
	}
	for _, tt := range tests {
		cmd := command()
		cmd.SetArgs(strings.Fields(tt.args))
		require.ErrorContains(t, cmd.ExecuteContext(t.Context()), tt.want, tt.args)
	}
}

func TestHelpAndVersion(t *testing.T) {
	printed := func(args ...string) string {
		var out bytes.Buffer
		cmd := command()
		cmd.SetOut(&out)
		cmd.SetArgs(args)
		require.NoError(t, cmd.Execute())
		return out.String()
	}
	for _, part := range []string{"recommender", "updater", "admission", "batch", "all"} {
		require.Contains(t, printed("--help"), "\n  "+part+" ")
		require.Contains(t, printed(part, "--help"), "--metrics-bind-address string")
	}
	version = "v1.2.3"
	defer func() { version = "" }()
	require.Equal(t, "sigma-mpa version v1.2.3\n", printed("--version"))
}
