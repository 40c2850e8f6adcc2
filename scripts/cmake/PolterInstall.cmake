# Where things lie is known when they are installed, not before: cmake --install BUILD --prefix X.

# polter_install_configured(TEMPLATE DESTINATION): TEMPLATE without its ".in", with the places of the installation between its @s.
function(polter_install_configured template destination)
  cmake_path(GET template STEM LAST_ONLY name)
  install(CODE "
    set(PROJECT_VERSION \"${PROJECT_VERSION}\")
    set(CMAKE_INSTALL_LIBDIR \"${CMAKE_INSTALL_LIBDIR}\")
    set(CMAKE_INSTALL_INCLUDEDIR \"${CMAKE_INSTALL_INCLUDEDIR}\")
    cmake_path(ABSOLUTE_PATH CMAKE_INSTALL_LIBDIR BASE_DIRECTORY \"\${CMAKE_INSTALL_PREFIX}\" OUTPUT_VARIABLE CMAKE_INSTALL_FULL_LIBDIR)
    # As GNUInstallDirs has it: what is installed in /usr or /opt is configured in /etc.
    set(CMAKE_INSTALL_FULL_SYSCONFDIR \"\${CMAKE_INSTALL_PREFIX}/etc\")
    if(CMAKE_INSTALL_PREFIX MATCHES \"^/usr/?\$\")
      set(CMAKE_INSTALL_FULL_SYSCONFDIR /etc)
    elseif(CMAKE_INSTALL_PREFIX MATCHES \"^/opt/\")
      set(CMAKE_INSTALL_FULL_SYSCONFDIR \"/etc\${CMAKE_INSTALL_PREFIX}\")
    endif()
    configure_file(\"${CMAKE_CURRENT_SOURCE_DIR}/${template}\" \"${CMAKE_CURRENT_BINARY_DIR}/installed/${name}\" @ONLY)
    file(INSTALL DESTINATION \"\${CMAKE_INSTALL_PREFIX}/${destination}\" TYPE FILE FILES \"${CMAKE_CURRENT_BINARY_DIR}/installed/${name}\")")
endfunction()

# To be called behind all install rules. Binaries are stripped; what a debugger needs lies beside each in .debug/, where gdb and elfutils look
# under every prefix (/usr/lib/debug/.build-id, Debian's place, is looked into for /usr alone).
function(polter_install_stripped)
  if(NOT CMAKE_OBJCOPY OR NOT CMAKE_STRIP)
    return()
  endif()
  install(CODE "
    foreach(file IN LISTS CMAKE_INSTALL_MANIFEST_FILES)
      set(at \"\$ENV{DESTDIR}\${file}\")
      if(IS_SYMLINK \"\${at}\" OR NOT EXISTS \"\${at}\")
        continue()
      endif()
      file(READ \"\${at}\" magic LIMIT 8 HEX)
      if(magic MATCHES \"^7f454c46\")
        cmake_path(GET at PARENT_PATH folder)
        cmake_path(GET at FILENAME name)
        set(debug \"\${folder}/.debug/\${name}.debug\")
        file(MAKE_DIRECTORY \"\${folder}/.debug\")
        execute_process(COMMAND \"${CMAKE_OBJCOPY}\" --only-keep-debug \"\${at}\" \"\${debug}\" COMMAND_ERROR_IS_FATAL ANY)
        execute_process(COMMAND \"${CMAKE_STRIP}\" --strip-unneeded \"\${at}\" COMMAND_ERROR_IS_FATAL ANY)
        execute_process(COMMAND \"${CMAKE_OBJCOPY}\" --remove-section=.gnu_debuglink \"--add-gnu-debuglink=\${debug}\" \"\${at}\" COMMAND_ERROR_IS_FATAL ANY)
        file(CHMOD \"\${debug}\" FILE_PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
        cmake_path(GET file PARENT_PATH folder)
        list(APPEND CMAKE_INSTALL_MANIFEST_FILES \"\${folder}/.debug/\${name}.debug\")
      elseif(magic STREQUAL \"213c617263683e0a\")  # a library of objects
        execute_process(COMMAND \"${CMAKE_STRIP}\" --strip-debug \"\${at}\" COMMAND_ERROR_IS_FATAL ANY)
      endif()
    endforeach()")
endfunction()
