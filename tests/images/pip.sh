# Installs a wheel of /shared with pip, without a network, for all users and in a virtual environment, and imports it.
set -e
export PIP_NO_INDEX=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore PIP_NO_CACHE_DIR=1
pip --version
pip install --break-system-packages -q /shared/hull_greeting-1.0-py3-none-any.whl
pip show hull_greeting | grep -E '^(Name|Version|Location)'
python3 -c 'import hull_greeting; print(hull_greeting.greet("world"), hull_greeting.__file__)'
hull-greeting you
stat -c '%a %U %n' "$(command -v hull-greeting)"
pip check
pip uninstall --break-system-packages -q -y hull_greeting
test ! -e /usr/local/bin/hull-greeting
python3 -c 'import hull_greeting' 2>&1 | tail -n 1
pip install -q --target /tmp/packages /shared/*.whl
PYTHONPATH=/tmp/packages python3 -c 'import hull_greeting; print(hull_greeting.__file__)'
