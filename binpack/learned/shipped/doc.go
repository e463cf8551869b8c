// Package shipped is the policy of a table: each row names a policy and its conditions, and the
// first row that suits the state decides.
package shipped
