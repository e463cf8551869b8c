// Package v1 is version v1 of SigmaArgs, as in the scheduler's configuration
// file:
//
//	apiVersion: kubescheduler.config.k8s.io/v1
//	kind: KubeSchedulerConfiguration
//	profiles:
//	- schedulerName: sigma
//	  plugins: {multiPoint: {enabled: [{name: Sigma, weight: 2000}]}}
//	  pluginConfig:
//	  - name: Sigma
//	    args: {policyName: general}
package v1

// +kubebuilder:object:generate=true
// +k8s:conversion-gen=github.com/sigma-scheduler/sigma/plugins/apis/config
// +k8s:defaulter-gen=TypeMeta
