# Installs the packages of the lockfile; no package's install script runs.
file(MAKE_DIRECTORY ${TO})
file(COPY ${FROM}/package.json ${FROM}/package-lock.json DESTINATION ${TO})
execute_process(COMMAND ${NPM} ci --ignore-scripts --no-audit --no-fund WORKING_DIRECTORY ${TO} RESULT_VARIABLE failed OUTPUT_VARIABLE said ERROR_VARIABLE said)
if(failed)
  message(FATAL_ERROR "report: npm ci failed in ${TO}; without a way to npm's registry, configure with -DPOLTER_REPORT=OFF, and polter has no verb report\n${said}")
endif()
file(TOUCH ${TO}/installed)
