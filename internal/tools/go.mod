// What developers run, and no test or program needs: commands that measure the code or the tests.
module github.com/rlxc/rlxc/internal/tools

go 1.26.0

require github.com/stretchr/testify v1.12.1

require go.yaml.in/yaml/v3 v3.0.5 // indirect
