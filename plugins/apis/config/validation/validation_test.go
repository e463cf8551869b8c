package validation_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/sigma-scheduler/sigma/plugins/apis/config"
	v1 "github.com/sigma-scheduler/sigma/plugins/apis/config/v1"
	"github.com/sigma-scheduler/sigma/plugins/apis/config/validation"
)

func valid(t *testing.T) *config.SigmaArgs {
	t.Helper()
	var file v1.SigmaArgs
	v1.SetDefaults_SigmaArgs(&file)
	var args config.SigmaArgs
	require.NoError(t, v1.Convert_v1_SigmaArgs_To_config_SigmaArgs(&file, &args, nil))
	return &args
}

func TestValidateSigmaArgs(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*config.SigmaArgs)
		want   string // empty: valid
	}{
		{"the defaults", func(*config.SigmaArgs) {}, ""},
		{"everything", func(a *config.SigmaArgs) {
			a.PolicyName, a.CanaryPolicyName, a.AppLabel = "a.b-c", "next", "app.kubernetes.io/name"
			a.Mapping, a.Fleet, a.DecisionLog = "linear", "fixed", "/d.jsonl"
			a.DecisionLogBytes, a.DecisionLogFiles = 64<<10, 1
			a.Deadline.Duration, a.ForecastMaxAge.Duration = 1, 1
			a.RebalancePrometheus = "http://prometheus.monitoring:9090/path"
		}, ""},
		{"no policy", func(a *config.SigmaArgs) { a.PolicyName = "" }, "args.policyName: Required value"},
		{"no name of a policy", func(a *config.SigmaArgs) { a.PolicyName = "a/b" }, `args.policyName: Invalid value: "a/b": a lowercase RFC 1123 subdomain`},
		{"a long name", func(a *config.SigmaArgs) { a.PolicyName = strings.Repeat("a", 254) }, "args.policyName: Invalid value"},
		{"no name of a canary", func(a *config.SigmaArgs) { a.CanaryPolicyName = "Next" }, `args.canaryPolicyName: Invalid value: "Next"`},
		{"the policy as its canary", func(a *config.SigmaArgs) { a.CanaryPolicyName = "general" }, `args.canaryPolicyName: Invalid value: "general": must not be policyName`},
		{"no label", func(a *config.SigmaArgs) { a.AppLabel = "a=b" }, `args.appLabel: Invalid value: "a=b"`},
		{"mapping", func(a *config.SigmaArgs) { a.Mapping = "rnk" }, `args.mapping: Unsupported value: "rnk": supported values: "rank", "linear"`},
		{"no mapping", func(a *config.SigmaArgs) { a.Mapping = "" }, `args.mapping: Unsupported value: ""`},
		{"fleet", func(a *config.SigmaArgs) { a.Fleet = "closed" }, `args.fleet: Unsupported value: "closed": supported values: "open", "fixed"`},
		{"a relative path", func(a *config.SigmaArgs) { a.DecisionLog = "d.jsonl" }, `args.decisionLog: Invalid value: "d.jsonl": must be the absolute path of a file`},
		{"a folder", func(a *config.SigmaArgs) { a.DecisionLog = "/var/log/" }, `args.decisionLog: Invalid value: "/var/log/"`},
		{"no rotation", func(a *config.SigmaArgs) { a.DecisionLogBytes, a.DecisionLogFiles = 0, 0 }, ""},
		{"a small log", func(a *config.SigmaArgs) { a.DecisionLogBytes = 65535 }, `args.decisionLogBytes: Invalid value: 65535: must be at least 64Ki, or 0: no limit`},
		{"less than no log", func(a *config.SigmaArgs) { a.DecisionLogBytes = -1 }, `args.decisionLogBytes: Invalid value: -1`},
		{"less than no file", func(a *config.SigmaArgs) { a.DecisionLogFiles = -1 }, `args.decisionLogFiles: Invalid value: -1: must not be negative; 0 keeps all`},
		{"a deadline in the past", func(a *config.SigmaArgs) { a.Deadline.Duration = -time.Second }, `args.deadline: Invalid value: "-1s"`},
		{"no age", func(a *config.SigmaArgs) { a.ForecastMaxAge.Duration = 0 }, `args.forecastMaxAge: Invalid value: "0s"`},
		{"a ceiling of a day", func(a *config.SigmaArgs) { a.MaxGracePeriod.Duration = 24 * time.Hour }, ""},
		{"the usual ceiling", func(a *config.SigmaArgs) { a.MaxGracePeriod.Duration = 0 }, ""},
		{"a ceiling below a second", func(a *config.SigmaArgs) { a.MaxGracePeriod.Duration = time.Second - 1 }, `args.maxGracePeriod: Invalid value: "999.999999ms": must be 1s to 24h, or 0: 15m`},
		{"a negative ceiling", func(a *config.SigmaArgs) { a.MaxGracePeriod.Duration = -time.Second }, `args.maxGracePeriod: Invalid value: "-1s"`},
		{"a ceiling above a day", func(a *config.SigmaArgs) { a.MaxGracePeriod.Duration = 24*time.Hour + 1 }, `args.maxGracePeriod: Invalid value`},
		{"no address", func(a *config.SigmaArgs) { a.RebalancePrometheus = "prometheus:9090" }, `args.rebalancePrometheus: Invalid value: "prometheus:9090": must be a URL`},
		{"no host", func(a *config.SigmaArgs) { a.RebalancePrometheus = "http:///x" }, `args.rebalancePrometheus: Invalid value`},
		{"a query", func(a *config.SigmaArgs) { a.RebalancePrometheus = "http://x/?query=up" }, `args.rebalancePrometheus: Invalid value`},
		{"two things", func(a *config.SigmaArgs) { a.Fleet, a.Mapping = "a", "b" }, "[args.mapping: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			args := valid(t)
			tt.change(args)
			err := validation.ValidateSigmaArgs(field.NewPath("args"), args)
			if tt.want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, tt.want)
			}
		})
	}
	args := valid(t)
	args.Fleet = ""
	require.ErrorContains(t, validation.ValidateSigmaArgs(nil, args), "fleet: Unsupported")
}
